"""The command line when something goes wrong: one line, a hint, an exit code, JSON where asked."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import etarena

from ..helpers.command_line import etarena_command, failure

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
