"""`etarena estimate`, on real files: figures, sweeps and pictures, and which arguments it refuses."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import etarena

from ..helpers.command_line import answer, etarena_command, failure


def test_a_program_at_a_size_nobody_ran(exported: Callable[..., Path]) -> None:
    path = exported("perceptron")
    (found,) = answer("estimate", path, "--shape", "321x4")["estimates"]
    method = etarena.load(path).method("forward")
    method.execute([torch.randn(321, 4)])
    assert found["devices"] == [
        {
            "device": "cpu",
            "peak": method.last_run.arena_bytes,
            "lower_bound": method.last_run.lower_bound_bytes,
            "parameter_bytes": None,  # in the file
        }
    ]
    assert (found["method"], found["sizes"]) == ("forward", {"rows": 321})
    assert found["input_bytes"] == 321 * 4 * 4
    assert found["output_bytes"] == 321 * 3 * 4


def test_a_model_that_was_never_exported(models: Path, exported: Callable[..., Path]) -> None:
    size = ("--shape", "77x4")
    from_file = answer("estimate", exported("perceptron"), *size)["estimates"]
    assert answer("estimate", f"{models}:perceptron", *size)["estimates"] == from_file


def test_a_model_on_devices(models: Path) -> None:
    places = ("--device-map", "=cpu", "--device-map", "2=vulkan:0")
    (found,) = answer("estimate", f"{models}:perceptron", "--shape", "100x4", *places)["estimates"]
    cpu, vulkan = found["devices"]
    # Linear(4, 8), ReLU, Linear(8, 3): the rows of 8 twice on the CPU; their copy and the results on the other device.
    assert (cpu["device"], cpu["peak"], cpu["parameter_bytes"]) == ("cpu", 2 * 100 * 8 * 4, (4 * 8 + 8) * 4)
    assert (vulkan["device"], vulkan["peak"]) == ("vulkan:0", 100 * (8 + 3) * 4)
    assert vulkan["parameter_bytes"] == (8 * 3 + 3) * 4
    assert (found["output_bytes"], found["state_bytes"]) == (None, None)  # among activations and parameters


def test_sweeps_and_their_pictures(exported: Callable[..., Path], tmp_path: Path) -> None:
    path = exported("perceptron")
    for suffix, start in [(".png", b"\x89PNG"), (".html", b"<!doctype html>"), (".svg", b"<?xml")]:
        picture = tmp_path / f"plot{suffix}"
        data = answer("estimate", path, "--sweep", "rows=10:50:20", "--plot", picture)
        assert [entry["sizes"]["rows"] for entry in data["estimates"]] == [10, 30, 50]
        assert picture.read_bytes().startswith(start)
    odd = path.with_name(r"a $\foo$ model_{.pte")  # no formula
    odd.write_bytes(path.read_bytes())
    answer("estimate", odd, "--sweep", "rows=1:2", "--plot", tmp_path / "odd.html")
    assert r"a $\foo$ model_{.pte" in (tmp_path / "odd.html").read_text()
    alone = answer("estimate", path, "--size", "rows=30")["estimates"]
    assert data["estimates"][1:2] == alone


def test_text_for_people(exported: Callable[..., Path]) -> None:
    result = etarena_command("estimate", exported("perceptron"), "--sweep", "rows=1:2")
    assert result.exit_code == 0
    assert "rows = 2" in result.stdout
    assert "lower bound" in result.stdout
    assert "in the file" in result.stdout  # the parameters


def test_a_file_whose_memory_is_fixed(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "static.pte"
    etarena_command("export", f"{models}:perceptron", "-o", path, "--memory", "static")
    assert "fixed when it was exported" in failure("estimate", path, code=2)
    assert "planned ahead of time, for the stock runtime" in etarena_command("inspect", path).stdout


def test_sizes_that_were_not_said_to_vary(tmp_path: Path) -> None:
    source = tmp_path / "fixed.py"
    source.write_text("import torch\ndef make():\n    return torch.nn.Linear(4, 3), (torch.ones(2, 4),)\n")
    for places in ([], ["--device-map", "=cuda:0"]):
        line = failure("estimate", f"{source}:make", "--shape", "5x4", *places)
        assert "is 5, but must be 2" in line
        assert "--dynamic" in line
        assert answer("estimate", f"{source}:make", "--shape", "5x4", "--dynamic", "all", *places)["estimates"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--shape", "3"), "'x' must have 2 sizes|must have 2 sizes"),
        (("--shape", "3x5"), "is 5, but must be 4"),
        (("--shape", "6000x4"), "at most 5000"),
        (("--shape", "3x4", "--size", "rows=4"), "rows is 4, but the shapes make it 3"),
        ((), "no number for rows"),
        (("--size", "columns=3"), "no symbol 'columns'"),
    ],
)
def test_sizes_that_make_no_sense(exported: Callable[..., Path], options: tuple[str, ...], words: str) -> None:
    line = failure("estimate", exported("perceptron"), *options)
    assert any(word in line for word in words.split("|"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--size", "rows"), "NAME=NUMBER"),
        (("--size", "rows=1", "--size", "rows=2"), "twice"),
        (("--sweep", "rows=5"), "NAME=START:STOP:STEP"),
        (("--sweep", "rows=5:1"), "empty range"),
        (("--sweep", "rows=1:5:0"), "empty range"),
        (("--sweep", "other=1:5"), "no size is called 'other', only rows"),
        (("--sweep", "rows=1:9000000"), "more than 10000"),
        (("--sweep", f"rows=1:{10**30}"), "more than 10000"),
        (("--sweep", "rows=1:2", "--sweep", "rows=1:2"), "twice"),
        (("--plot", "x.png"), "--sweep"),
        (("--sweep", "rows=1:2", "--plot", "x.gif"), ".html"),
        (("--method", "backward"), "no method 'backward', only forward"),
        (("--device-map", "=cpu"), "fixed"),
    ],
)
def test_options_that_make_no_sense(exported: Callable[..., Path], options: tuple[str, ...], words: str) -> None:
    assert words in failure("estimate", exported("perceptron"), *options, code=2)


def test_maps_that_make_no_sense(models: Path) -> None:
    assert "NAME=DEVICE" in failure("estimate", f"{models}:perceptron", "--device-map", "cpu", code=2)
    assert "names no device" in failure("estimate", f"{models}:perceptron", "--device-map", "=nowhere")
    assert "'9' is no submodule" in failure("estimate", f"{models}:perceptron", "--device-map", "9=cpu")


def test_files_that_are_not_what_they_claim(exported: Callable[..., Path], tmp_path: Path) -> None:
    whole = exported("perceptron").read_bytes()
    for length in (41, 1000, len(whole) - 1):
        cut = tmp_path / "cut.pte"
        cut.write_bytes(whole[:length])
        assert f"has {length:,} of {len(whole):,} bytes" in failure("estimate", cut)
    path = tmp_path / "model.pte"
    path.write_text("text")
    assert "is no .pte program" in failure("estimate", path)
    path = tmp_path / "model.pt2"
    path.write_text("text")
    assert "is not an archive" in failure("estimate", path)
    assert "there is no file" in failure("estimate", tmp_path / "missing.pte")


def test_a_model_without_tensors_needs_nothing(tmp_path: Path) -> None:
    source = tmp_path / "numbers.py"
    source.write_text(
        "import torch\nclass Product(torch.nn.Module):\n    def forward(self, a, b):\n        return a * b\n"
        "def make():\n    return Product(), (3, 4)\n"
    )
    (found,) = answer("estimate", f"{source}:make", "--device-map", "=cpu")["estimates"]
    assert found["devices"] == [{"device": "cpu", "peak": 0, "lower_bound": 0, "parameter_bytes": 0}]
