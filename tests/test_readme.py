"""The README's Python runs as written, and what its text points at exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)
    assert len(blocks) >= 4
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "readme"}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    assert (tmp_path / "features.pte").exists()
    assert "(240, 320)" in capsys.readouterr().out


DOCUMENTS = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
        assert target.startswith("https://") or (path.parent / target).exists(), target


def test_every_command_of_the_readme_is_known() -> None:
    from etarena.cli import cli

    commands = set(re.findall(r"^etarena (\w+)", README, re.M))
    assert commands == set(cli.commands)
