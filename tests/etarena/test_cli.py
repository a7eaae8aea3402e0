"""The command line, on real files: what it prints, writes and refuses."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from rich.console import Console

import etarena
from etarena.cli import cli

MODELS = """
import torch


class TwoInputs(torch.nn.Module):
    def forward(self, left, right):
        return torch.relu(left) + right, (left * 2).sum(dim=0)


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        self.total += x.sum(dim=0)
        return self.total * 1


def perceptron():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
    rows = torch.export.Dim("rows", min=1, max=5000)
    return model, (torch.randn(5, 4),), None, ({0: rows},)


def two_inputs():
    return TwoInputs(), (torch.randn(5, 2), torch.randn(5, 2))


def counter():
    return Counter(), (torch.randn(3, 2),), {}, ({0: torch.export.Dim("rows")},)


def prints():
    print("a model that talks")
    return perceptron()


def not_a_model():
    return 7


constant = 7
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "models_of_the_cli_tests.py"
    path.write_text(MODELS)
    return path


@pytest.fixture(scope="module")
def exported(models: Path) -> Callable[..., Path]:
    """Export one of the models, once for all tests."""

    def export(name: str, *options: str) -> Path:
        path = models.parent / f"{name}{'_'.join(options).replace(':', '-')}.pte"
        if not path.exists():
            result = etarena_command("export", f"{models}:{name}", "-o", path, *options)
            assert result.exit_code == 0, result.stderr
        return path

    return export


def etarena_command(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def answer(*arguments: object) -> dict:
    result = etarena_command(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def failure(*arguments: object, code: int = 1) -> str:
    """The one line that a failing command prints on stderr after the lines of its steps."""
    result = etarena_command(*arguments)
    assert result.exit_code == code
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr.splitlines()[-1]


def perceptron() -> torch.nn.Module:
    namespace: dict = {}
    exec(MODELS, namespace)
    return namespace["perceptron"]()[0]


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


# failures


def test_a_failure_is_one_line_with_a_hint(exported: Callable[..., Path]) -> None:
    line = failure("run", exported("perceptron"), "--shape", "5001x4")
    assert line.startswith("error: ")
    assert line.endswith("(hint: 'etarena inspect MODEL' lists the sizes that each input may have)")


def test_a_failure_as_json(exported: Callable[..., Path]) -> None:
    result = etarena_command("run", exported("perceptron"), "--shape", "5001x4", "--json")
    assert result.exit_code == 1
    error = json.loads(result.stdout)["error"]
    assert error["type"] == "ShapeError"
    assert "5001" in error["message"]
    assert "inspect" in error["hint"]


def test_debug_shows_the_traceback(exported: Callable[..., Path]) -> None:
    result = etarena_command("run", exported("perceptron"), "--shape", "5001x4", "--debug")
    assert isinstance(result.exception, etarena.ShapeError)


@pytest.mark.parametrize("command", ["inspect", "run"])
def test_a_damaged_file_is_one_line(exported: Callable[..., Path], tmp_path: Path, command: str) -> None:
    blob = bytearray(exported("perceptron").read_bytes())
    blob[-100] ^= 1
    (tmp_path / "damaged.pte").write_bytes(blob)
    assert "export the model again" in failure(command, tmp_path / "damaged.pte")
    assert "missing.pte" in failure(command, tmp_path / "missing.pte")


def test_the_installed_command(exported: Callable[..., Path]) -> None:
    path = exported("perceptron")
    command = [sys.executable, "-m", "etarena", "run", str(path), "--shape", "9x4", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["outputs"][0]["shape"] == [9, 3]
    done = subprocess.run([*command[:4], "missing.pte"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) <= 2


def test_help_is_light() -> None:
    code = (
        "import sys; from etarena.cli import cli; cli(['--help'], standalone_mode=False); "
        "assert not {'torch', 'executorch', 'sympy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in ("export", "inspect", "run", "demo"):
        assert f"  {name} " in done.stdout


# what is shown, and where it cannot be


def test_square_brackets_in_names_and_shapes_are_shown(exported: Callable[..., Path], tmp_path: Path) -> None:
    odd = tmp_path / "[bold]model[x].pte"
    odd.write_bytes(exported("perceptron").read_bytes())
    shown = etarena_command("inspect", odd)
    assert shown.exit_code == 0
    assert odd.name in shown.stdout.replace("\n", "")
    assert "[rows, 4]" in shown.stdout
    ran = etarena_command("run", odd, "--shape", "3x4", "--save-outputs", tmp_path / "[red]out")
    assert ran.exit_code == 0
    assert "[red]out" in ran.stdout


@pytest.mark.parametrize(
    "arguments", [["--repeat", "none"], ["--no-such-option"], ["--shape", "1x2x3", "--shape", "2"]]
)
def test_wrong_arguments_are_a_json_document_too(exported: Callable[..., Path], arguments: list[str]) -> None:
    result = etarena_command("run", exported("perceptron"), *arguments, "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["message"] in result.stderr
    assert error["type"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_answer_that_cannot_be_written_is_one_line(exported: Callable[..., Path], options: list[str]) -> None:
    command = [sys.executable, "-m", "etarena", "inspect", str(exported("perceptron")), *options]
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("error: the answer cannot be written to stdout: No space left")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("size", [10**15, 10**18, 10**30])
def test_run_refuses_sizes_beyond_the_machine(exported: Callable[..., Path], size: int) -> None:
    line = failure("run", exported("counter"), "--shape", f"{size}x2")
    assert line.startswith(f"error: a random float32 input of shape {size}x2 needs")
