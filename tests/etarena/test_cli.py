"""The command line, on real files: what it prints and writes, and which arguments it refuses."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import etarena

from ..helpers.command_line import answer, etarena_command, failure, perceptron

# export


def test_export_writes_a_file_that_runs_like_eager(exported: Callable[..., Path]) -> None:
    x = torch.randn(37, 4)
    (y,) = etarena.load(exported("perceptron")).method("forward").execute([x])
    torch.testing.assert_close(y, perceptron()(x), rtol=1e-4, atol=1e-6)


def test_export_describes_what_it_wrote(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    data = answer("export", f"{models}:perceptron", "-o", path)
    assert data["path"] == str(path)
    assert data["bytes"] == path.stat().st_size
    (method,) = data["methods"]
    assert method["name"] == "forward"
    (only,) = method["inputs"]
    (symbol,) = method["symbols"]
    assert only["kind"] == "tensor"
    assert only["dtype"] == "float32"
    assert only["shape"] == [symbol["name"], "4"]
    assert (symbol["min"], symbol["max"]) == (1, 5000)
    assert method["outputs"] == [{"kind": "tensor", "dtype": "float32", "shape": [symbol["name"], "3"]}]
    assert method["delegates"] == {}


def test_export_of_an_archive(tmp_path: Path) -> None:
    model, rows = perceptron(), torch.export.Dim("rows")
    archive = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(model, (torch.randn(5, 4),), dynamic_shapes=({0: rows},)), archive)
    path = tmp_path / "model.pte"
    answer("export", archive, "-o", path)
    x = torch.randn(2, 4)
    torch.testing.assert_close(etarena.load(path).method()(x)[0], model(x), rtol=1e-4, atol=1e-6)


def test_export_by_module_name_from_the_current_folder(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(models.parent)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    data = answer("export", f"{models.stem}:perceptron", "-o", "by_name.pte")
    assert (models.parent / "by_name.pte").stat().st_size == data["bytes"]


def test_export_to_xnnpack(exported: Callable[..., Path]) -> None:
    (method,) = answer("inspect", exported("perceptron", "--backend", "xnnpack"))["methods"]
    assert set(method["delegates"]) == {"XnnpackBackend"}


@pytest.mark.parametrize(
    ("backends", "taken"),
    [
        (["vulkan"], {"EtarenaVulkan"}),
        (["vulkan", "xnnpack"], {"EtarenaVulkan"}),
        (["xnnpack", "vulkan"], {"XnnpackBackend"}),
        (["cpu"], set()),
    ],
)
def test_the_first_backend_has_the_choice(models: Path, tmp_path: Path, backends: list[str], taken: set[str]) -> None:
    options = [word for backend in backends for word in ("--backend", backend)]
    (method,) = answer("export", f"{models}:perceptron", "-o", tmp_path / "m.pte", *options)["methods"]
    assert set(method["delegates"]) == taken


def test_explaining_vulkan_shows_what_it_takes(models: Path) -> None:
    result = etarena_command("export", f"{models}:perceptron", "--explain", "--backend", "vulkan")
    assert "takes aten::linear x 2, aten::relu x 1" in result.stdout


def test_stdout_holds_the_answer_even_if_the_model_prints(models: Path, tmp_path: Path) -> None:
    result = etarena_command("export", f"{models}:prints", "-o", tmp_path / "model.pte", "--json")
    assert json.loads(result.stdout)["bytes"] > 0
    assert "a model that talks" in result.stderr


@pytest.mark.parametrize(
    ("options", "shapes", "limits"),
    [
        (["left:0=n", "right:0=n"], [["n", "2"], ["n", "2"]], [(0, None)]),
        (["0:0=n,2..100", "1:-2=n"], [["n", "2"], ["n", "2"]], [(2, 100)]),
        (["left:0=n,3..", "right:0=n"], [["n", "2"], ["n", "2"]], [(3, None)]),
    ],
)
def test_dynamic_names_sizes(models: Path, tmp_path: Path, options: list, shapes: list, limits: list) -> None:
    dynamic = [word for text in options for word in ("--dynamic", text)]
    (method,) = answer("export", f"{models}:two_inputs", "-o", tmp_path / "m.pte", *dynamic)["methods"]
    found = [item["shape"] for item in method["inputs"]]
    (symbol,) = method["symbols"]
    assert [[size.replace(symbol["name"], "n") for size in shape] for shape in found] == shapes
    # torch decides the smallest size of a dimension without a given minimum: 0, 1 or 2.
    low, high = limits[0]
    assert symbol["min"] == low if low else symbol["min"] <= 2
    assert symbol["max"] == high


def test_dynamic_all_lets_every_dimension_vary(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.pte"
    answer("export", f"{models}:two_inputs", "-o", path, "--dynamic", "all")
    left, right = torch.randn(9, 11), torch.randn(9, 11)
    first, second = etarena.load(path).method()(left, right)
    torch.testing.assert_close(first, left.relu() + right)
    torch.testing.assert_close(second, (left * 2).sum(dim=0))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing", "none of 'all', INPUT:DIM"),
        ("middle:0", "no input 'middle', only left, right"),
        ("left:2", "'left' has 2 dimensions"),
        ("left:-3", "'left' has 2 dimensions"),
        ("left:0=n,5", "none of 'all', INPUT:DIM"),
    ],
)
def test_dynamic_refuses(models: Path, tmp_path: Path, text: str, said: str) -> None:
    line = failure("export", f"{models}:two_inputs", "-o", tmp_path / "m.pte", "--dynamic", text, code=2)
    assert said in line
    assert not (tmp_path / "m.pte").exists()


def test_dynamic_with_an_archive_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(perceptron(), (torch.randn(5, 4),)), archive)
    assert "needs a model" in failure("export", archive, "-o", tmp_path / "m.pte", "--dynamic", "all", code=2)


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        ("{models}", 2, "neither a .pt2 file nor MODULE:CALLABLE"),
        ("{models}:missing", 2, "has no callable 'missing'"),
        ("{models}:constant", 2, "has no callable 'constant'"),
        ("{models}:not_a_model", 2, "not int"),
        ("nowhere.py:make", 1, "no file 'nowhere.py'"),
        ("nowhere.pt2", 1, "no file 'nowhere.pt2'"),
        ("no_such_package.models:make", 1, "No module named 'no_such_package'"),
    ],
)
def test_export_refuses_a_source(models: Path, tmp_path: Path, source: str, code: int, said: str) -> None:
    line = failure("export", source.format(models=models), "-o", tmp_path / "m.pte", code=code)
    assert said in line


def test_export_refuses_an_archive_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "broken.pt2"
    path.write_bytes(b"not an archive")
    assert "broken.pt2" in failure("export", path, "-o", tmp_path / "m.pte")


# inspect


def test_inspect_describes_the_file_as_export_did(exported: Callable[..., Path], models: Path, tmp_path: Path) -> None:
    made = answer("export", f"{models}:perceptron", "-o", tmp_path / "m.pte")["methods"]
    assert answer("inspect", tmp_path / "m.pte")["methods"] == [method | {"planned": "at run time"} for method in made]


def test_inspect_plans_for_shapes(exported: Callable[..., Path]) -> None:
    plan = answer("inspect", exported("perceptron"), "--shape", "100x4")["plan"]
    # Two hidden tensors [100, 8] of float32 are live together in the ReLU, unless it runs in place.
    assert plan["shapes"] == [[100, 4]]
    assert 100 * 8 * 4 <= plan["lower_bound"] <= plan["peak"]
    assert plan["peak"] == max(buffer["offset"] + buffer["nbytes"] for buffer in plan["buffers"])
    assert ("float32", [100, 8]) in [(buffer["dtype"], buffer["shape"]) for buffer in plan["buffers"]]


def test_inspect_shows_a_person_the_same(exported: Callable[..., Path]) -> None:
    result = etarena_command("inspect", exported("perceptron"), "--shape", "100x4")
    assert result.exit_code == 0, result.stderr
    for text in ("float32", "at most 5000", "x the lower bound of", "largest buffers"):
        assert text in result.stdout


def test_inspect_lists_state(exported: Callable[..., Path]) -> None:
    (method,) = answer("inspect", exported("counter"))["methods"]
    assert method["state"] == [{"name": "total", "dtype": "float32", "shape": ["2"]}]


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("html", b"<!")])
def test_inspect_draws_a_map(exported: Callable[..., Path], tmp_path: Path, suffix: str, start: bytes) -> None:
    picture = tmp_path / f"map.{suffix}"
    data = answer("inspect", exported("perceptron"), "--shape", "100x4", "--map", picture)
    assert data["map"] == str(picture)
    assert picture.read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--map", "map.png"], 2, "add --shape"),
        (["--shape", "3x4", "--map", "map.gif"], 2, ".png, .svg, .html"),
        (["--shape", "3xx4"], 2, "is not a shape"),
        (["--shape", "3x4", "--shape", "3x4"], 2, "2 --shape given; inputs that need one"),
        (["--method", "backward"], 1, "backward"),
        (["--shape", "6000x4"], 1, "5000"),
        (["--shape", "3x5"], 1, "5"),
    ],
)
def test_inspect_refuses(exported: Callable[..., Path], options: list, code: int, said: str) -> None:
    assert said in failure("inspect", exported("perceptron"), *options, code=code)


# run


def test_run_saves_what_eager_computes(exported: Callable[..., Path], tmp_path: Path) -> None:
    x = torch.randn(7, 4)
    np.save(tmp_path / "x.npy", x.numpy())
    out = tmp_path / "out"
    data = answer("run", exported("perceptron"), "--input", tmp_path / "x.npy", "--save-outputs", out, "--repeat", 3)
    expected = perceptron()(x).detach()
    assert data["saved"] == [str(out / "output_0.npy")]
    torch.testing.assert_close(torch.from_numpy(np.load(out / "output_0.npy")), expected, rtol=1e-4, atol=1e-6)
    (summary,) = data["outputs"]
    assert summary["shape"] == [7, 3]
    assert summary["max"] == pytest.approx(expected.max().item(), rel=1e-4)
    assert summary["not_finite"] == 0
    assert data["run_ns"]["runs"] == 3
    assert 0 < data["run_ns"]["min"] <= data["run_ns"]["median"]
    assert data["memory"]["output_bytes"] >= 7 * 3 * 4
    assert data["memory"]["lower_bound_bytes"] <= data["memory"]["arena_bytes"]


def test_run_with_random_inputs_repeats_itself(exported: Callable[..., Path]) -> None:
    def outputs(*options: object) -> list:
        return answer("run", exported("perceptron"), "--shape", "9x4", *options)["outputs"]

    assert outputs() == outputs()
    assert outputs() != outputs("--seed", 1)


def test_run_keeps_state_between_repeats(exported: Callable[..., Path], tmp_path: Path) -> None:
    np.save(tmp_path / "ones.npy", np.ones((3, 2), np.float32))
    data = answer("run", exported("counter"), "--input", tmp_path / "ones.npy", "--repeat", 2)
    assert data["outputs"][0]["min"] == data["outputs"][0]["max"] == 6.0
    assert data["memory"]["state_bytes"] >= 8


def test_run_shows_a_person_memory_and_time(exported: Callable[..., Path]) -> None:
    result = etarena_command("run", exported("perceptron"), "--shape", "9x4", "--repeat", 2)
    assert result.exit_code == 0, result.stderr
    for text in ("float32 9x3", "arena", "x the lower bound of", "of it planning", "median of 2 runs"):
        assert text in result.stdout


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 2, "0 --shape given; inputs that need one, in order"),
        (["--shape", "9x4", "--repeat", "0"], 2, "--repeat"),
        (["--input", "missing.npy"], 2, "missing.npy"),
        (["--shape", "9x5"], 1, "etarena inspect MODEL"),
        (["--shape", "5001x4"], 1, "5000"),
        (["--method", "backward", "--shape", "9x4"], 1, "backward"),
    ],
)
def test_run_refuses(exported: Callable[..., Path], options: list, code: int, said: str) -> None:
    assert said in failure("run", exported("perceptron"), *options, code=code)


def test_run_refuses_an_array_of_objects(exported: Callable[..., Path], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert "x.npy" in failure("run", exported("perceptron"), "--input", tmp_path / "x.npy")


# demo


@dataclass
class FakeDemo:
    """A demo that did nothing: the real one takes minutes."""

    failures: list[str]

    def data(self) -> dict:
        return {"failures": self.failures}

    def show(self, console: Console) -> None:
        console.print("a table")


@pytest.mark.parametrize("failures", [[], ["arena too large", "error too large"]])
def test_demo_fails_when_a_figure_is_out_of_bounds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failures: list[str]
) -> None:
    calls = []

    def run(out: Path, quick: bool) -> FakeDemo:
        calls.append((out, quick))
        return FakeDemo(failures)

    monkeypatch.setattr("etarena.demo.main.run", run)
    for options, printed in (
        ([], "a table\n"),
        (["--quick", "--json"], json.dumps({"failures": failures}, indent=2) + "\n"),
    ):
        result = etarena_command("demo", "--out", tmp_path, *options)
        assert result.stdout == printed
        assert result.stderr == ("error: arena too large; error too large\n" if failures else "")
        assert result.exit_code == (1 if failures else 0)
    assert calls == [(tmp_path, False), (tmp_path, True)]


# export --explain


def test_explaining_writes_no_file_unless_asked(models: Path, tmp_path: Path) -> None:
    data = answer("export", f"{models}:perceptron", "--explain")
    assert data["exported"] is True
    assert data["methods"][0]["known_from"] == {"rows": ["size 0 of input 'input'"]}
    assert "path" not in data
    path = tmp_path / "model.pte"
    data = answer("export", f"{models}:perceptron", "--explain", "-o", path)
    assert data["bytes"] == path.stat().st_size


def test_an_explanation_is_text_for_people(models: Path) -> None:
    result = etarena_command("export", f"{models}:perceptron", "--explain")
    assert result.exit_code == 0
    assert "rows (1 to 5000): size 0 of input 'input'" in result.stdout
    assert "aten::addmm.out x 2" in result.stdout


def test_a_refused_model_is_explained_and_fails(tmp_path: Path) -> None:
    source = tmp_path / "refused.py"
    source.write_text(
        "import torch\n\n\nclass Median(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x.median() + x.relu().median()\n\n\ndef make():\n    return Median(), (torch.randn(3),)\n"
    )
    path = tmp_path / "refused.pte"
    result = etarena_command("export", f"{source}:make", "--explain", "-o", path)
    assert result.exit_code == 1
    assert "error: the model cannot be exported, for 2 reasons" in result.stderr
    assert result.stdout.count(f"at {source}:6: return x.median() + x.relu().median()") == 2
    assert not path.exists()


def test_without_explain_the_output_is_required(models: Path) -> None:
    result = etarena_command("export", f"{models}:perceptron")
    assert result.exit_code == 2
    assert "'-o' / '--output'" in result.stderr
