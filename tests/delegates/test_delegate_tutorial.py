"""The code of docs/delegates.md runs as written, and its suite passes."""

import re
import subprocess
import sys
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs" / "delegates.md").read_text()


def test_the_tutorials_delegate_conforms(tmp_path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)
    assert len(blocks) >= 3
    (tmp_path / "test_softmax.py").write_text("\n".join(blocks))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_softmax.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert re.search(r"\b2[0-9] passed", result.stdout)
