import subprocess
import sys

import pytest

from etarena import allocator
from etarena.allocator import errors

MODULES = ["", ".plan", ".size_compiler", ".arena", ".planner", ".faults"]


def test_the_floor_imports_neither_torch_nor_executorch():
    code = (
        "import importlib, sys\n"
        f"for name in {MODULES}: importlib.import_module('etarena.allocator' + name)\n"
        "print(sorted({'torch', 'executorch', 'sympy'} & {name.partition('.')[0] for name in sys.modules}))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_public_name_exists():
    for name in allocator.__all__:
        assert hasattr(allocator, name)
    assert len(set(allocator.__all__)) == len(allocator.__all__)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.ArenaFullError, MemoryError),
        (errors.PlanError, ValueError),
        (errors.SizeOverflowError, OverflowError),
        (errors.ShapeError, ValueError),
        (errors.InputError, ValueError),
        (errors.InputTypeError, TypeError),
        (errors.NotBuiltError, ImportError),
        (errors.RuntimeFailure, RuntimeError),
        (errors.ExportError, Exception),
    ],
)
def test_errors_are_ours_and_the_closest_builtin(error, builtin):
    assert issubclass(error, errors.Error)
    assert issubclass(error, builtin)


def test_a_runtime_failure_carries_what_the_runtime_said():
    failure = errors.RuntimeFailure("no", code=16, code_name="NotSupported", instruction=3, operator="aten::x", log="l")
    assert (failure.code, failure.code_name, failure.instruction) == (16, "NotSupported", 3)
    assert (failure.operator, failure.log, str(failure)) == ("aten::x", "l", "no")
