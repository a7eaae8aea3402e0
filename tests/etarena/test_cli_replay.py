import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from etarena.allocator.replay import Step, save
from etarena.cli.group import cli

LIFETIMES = "id,lower,upper,size\n0,0,2,640\n1,1,3,64\n2,2,3,640\n"


def invoke(*words: object) -> Result:
    return CliRunner().invoke(cli, ["replay", *map(str, words)])


@pytest.fixture
def lifetimes(tmp_path: Path) -> Path:
    path = tmp_path / "model.csv"
    path.write_text(LIFETIMES)
    return path


def test_lifetimes_on_both_heaps(lifetimes: Path) -> None:
    result = invoke(lifetimes, "--allocator", "etarena", "--allocator", "reference", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["steps"] == 6
    assert [entry["allocator"] for entry in data["replays"]] == ["etarena", "reference"]
    for entry in data["replays"]:
        assert (entry["peak_live_bytes"], entry["extent_bytes"], entry["footprint"]) == (704, 704, 1.0)


def test_a_saved_trace(tmp_path: Path) -> None:
    save([Step(0, 1000), Step(0, None), Step(1, 3000)], tmp_path / "trace")
    result = invoke(tmp_path / "trace", "--json")
    assert json.loads(result.stdout)["replays"][0]["peak_live_bytes"] == 3000


def test_a_person_sees_a_table(lifetimes: Path) -> None:
    result = invoke(lifetimes)
    assert "extent / peak" in result.stdout
    assert "704" in result.stdout


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("trace", None, "there is no file"),
        ("trace", "nonsense", "is no allocation trace"),
        ("trace", "etarena-trace 1\nf 0\n", "line 2"),
        ("lifetimes.csv", "a,b\n1,2\n", "no list of lifetimes"),
        ("lifetimes.csv", "id,lower,upper,size\n0,0,x,1\n", "no list of lifetimes"),
    ],
)
def test_files_that_are_no_traces(tmp_path: Path, name: str, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    result = invoke(tmp_path / name)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_unknown_allocators(lifetimes: Path) -> None:
    assert invoke(lifetimes, "--allocator", "other").exit_code == 2
