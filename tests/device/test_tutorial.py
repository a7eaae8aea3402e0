"""The code of docs/devices.md runs as written, and its suite passes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "devices.md").read_text()


def test_the_blocks_run_one_after_another(capsys: pytest.CaptureFixture) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)
    assert len(blocks) >= 7
    namespace: dict = {"__name__": "devices"}
    for block in blocks:
        exec(compile(block, "devices.md", "exec"), namespace)
    printed = capsys.readouterr().out
    assert "Use .map() or .to('cpu')" in printed
    assert "<ETensor float32[2, 3] on custom64:1 <Resource custom kind 0x10001" in printed
    assert "the limit of 33554432 bytes leaves" in printed


def test_the_tutorials_allocator_conforms(tmp_path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)
    chosen = [block for block in blocks if "class PretendDevice" in block or "class TestPretendDevice" in block]
    (tmp_path / "test_pretend.py").write_text("\n".join(chosen))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_pretend.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert re.search(r"\b2[0-9] passed", result.stdout)
