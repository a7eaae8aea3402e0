"""Delegates behind function tables: one in C built with the system's compiler, others made with ctypes."""

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec

import etarena

from ..helpers.backends import SINE, Interleaved, OperatorPartitioner, TorchDelegate
from ..helpers.function_tables import Table, say, table

ROOT = Path(__file__).parent.parent.parent
BACKEND = "TablesOfTheTests"
N = torch.export.Dim.DYNAMIC


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The example in C, compiled as its first lines say."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "a C compiler built these modules"
    path = tmp_path_factory.mktemp("c_delegate") / "sine.so"
    source = ROOT / "examples" / "c_delegate.c"
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"]
    command = [compiler, *flags, f"-I{etarena.get_include()}", str(source), "-lm", "-o", str(path)]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(path))
    loaded.etarena_sine_table.restype = ctypes.c_void_p
    return loaded


@pytest.fixture(scope="module")
def program():
    partitioner = OperatorPartitioner(BACKEND, SINE)
    exported = etarena.export(
        Interleaved(), (torch.randn(6, 50),), dynamic_shapes={"x": {0: N}}, partitioners=[partitioner]
    )
    return exported.buffer


@pytest.fixture
def use():
    registered = []

    def register(what):
        etarena.register_delegate(BACKEND, what)
        registered.append(what)  # tables live as long as they are registered

    yield register
    if registered:
        etarena.unregister_delegate(BACKEND)


def load(program):
    return etarena.load(program, etarena.Arena(1 << 32)).method()


def test_the_example_in_c(library, program, use):
    use(library.etarena_sine_table())
    method = load(program)
    for rows in (6, 1, 300, 6):
        x = torch.randn(rows, 50)
        method.arena.scribble()
        torch.testing.assert_close(method.execute([x])[0], Interleaved()(x), rtol=1e-4, atol=1e-4)
        assert method.last_run.delegate_scratch_bytes == rows * 200
        assert method.last_run.scratch_outside_arena == ()


def test_compile_specs_reach_c(library, use):
    class One(torch.nn.Module):
        def forward(self, x):
            return torch.sin(x)

    partitioner = OperatorPartitioner(BACKEND, SINE, [CompileSpec("cosine", b"")])
    exported = etarena.export(One(), (torch.randn(8),), partitioners=[partitioner])
    use(library.etarena_sine_table())
    x = torch.randn(8)
    torch.testing.assert_close(load(exported.buffer).execute([x])[0], torch.cos(x))


def test_errors_of_c(library, use):
    class Doubles(torch.nn.Module):
        def forward(self, x):
            return torch.sin(x)

    exported = etarena.export(Doubles(), (torch.randn(8).double(),), partitioners=[OperatorPartitioner(BACKEND, SINE)])
    use(library.etarena_sine_table())
    with pytest.raises(etarena.RuntimeFailure, match="execute: expected one float32 input") as caught:
        load(exported.buffer).execute([torch.randn(8).double()])
    assert caught.value.__cause__ is None


def array(argument):
    """Elements of a float32 argument."""
    kind = ctypes.c_float * (argument.nbytes // 4)
    return np.frombuffer(kind.from_address(argument.data), np.float32)


def test_a_table_made_with_ctypes(program, use):
    seen = []

    def execute(context, handle, arguments, count, scratch, nbytes, error):
        seen.append((context, handle, count, nbytes, tuple(arguments[0].sizes[:2]), tuple(arguments[0].strides[:2])))
        seen.append(
            (arguments[0].kind, arguments[0].dtype, tuple(arguments[0].dim_order[:2]), arguments[0].device.type)
        )
        np.sin(array(arguments[0]), out=array(arguments[1]))
        return 0

    def init(context, blob, nbytes, specs, count, handle, error):
        handle[0] = 77
        seen.append((context, nbytes > 10, count))
        return 0

    def scratch_bytes(context, handle, arguments, count, nbytes, error):
        nbytes[0] = 123
        return 0

    made = table(execute, init=init, scratch_bytes=scratch_bytes)
    made.context = 5
    use(ctypes.pointer(made))
    method = load(program)
    x = torch.randn(4, 50)
    torch.testing.assert_close(method.execute([x])[0], Interleaved()(x), rtol=1e-4, atol=1e-4)
    assert seen[:3] == [(5, True, 0)] * 3
    assert seen[3:5] == [(5, 77, 2, 123, (4, 50), (50, 1)), (1, 6, (0, 1), 0)]


def test_every_kind_of_pointer(program, use):
    def execute(context, handle, arguments, count, scratch, nbytes, error):
        np.sin(array(arguments[0]), out=array(arguments[1]))
        return 0

    made = table(execute)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    address = ctypes.addressof(made)
    kinds = [made, ctypes.pointer(made), address, ctypes.c_void_p(address), capsule(address, b"etarena_delegate", None)]
    x = torch.randn(2, 50)
    for kind in kinds:
        etarena.register_delegate(BACKEND, kind)
        torch.testing.assert_close(load(program).execute([x])[0], Interleaved()(x), rtol=1e-4, atol=1e-4)
        etarena.unregister_delegate(BACKEND)
    with pytest.raises(etarena.InputTypeError, match="etarena_delegate"):
        etarena.register_delegate(BACKEND, capsule(address, b"something_else", None))


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("struct_size", 0, "struct_size 0"),
        ("struct_size", ctypes.sizeof(Table) - 8, "struct_size 56, version 1 has 64"),
        ("struct_size", 1 << 31, "struct_size"),
        ("abi", 0, "abi 0, this etarena has 1"),
        ("abi", 2, "abi 2"),
        ("init", None, "no function init"),
        ("execute", None, "no function execute"),
        ("close", None, "no function close"),
    ],
)
def test_wrong_tables(field, value, text):
    made = table()
    setattr(made, field, type(getattr(made, field))() if value is None else value)
    with pytest.raises(etarena.InputError, match=text):
        etarena.register_delegate(BACKEND, ctypes.pointer(made))


def test_a_larger_table_of_a_later_version(program, use):
    class Later(Table):
        _fields_ = (("more", ctypes.c_void_p),)

    def execute(context, handle, arguments, count, scratch, nbytes, error):
        np.sin(array(arguments[0]), out=array(arguments[1]))
        return 0

    now = table(execute)
    later = Later(more=1)
    ctypes.memmove(ctypes.addressof(later), ctypes.addressof(now), ctypes.sizeof(now))
    later.struct_size = ctypes.sizeof(Later)
    use(later)
    x = torch.randn(2, 50)
    torch.testing.assert_close(load(program).execute([x])[0], Interleaved()(x), rtol=1e-4, atol=1e-4)
    assert now.execute


@pytest.mark.parametrize("what", [None, 0, -1, 1 << 64, 1.5, "table", object(), ctypes.c_void_p(None), True, int, dict])
def test_what_is_no_delegate(what):
    with pytest.raises(etarena.Error):
        etarena.register_delegate(BACKEND, what)


MISALIGNED = pytest.param(ctypes.addressof(table()) + 1, id="misaligned")


@pytest.mark.parametrize("address", [8, 0x7000, 1 << 62, (1 << 64) - 8, MISALIGNED])
def test_an_address_that_no_struct_can_have(address):
    with pytest.raises(etarena.InputError, match="no address of a struct"):
        etarena.register_delegate(BACKEND, address)


@pytest.mark.parametrize("name", ["", "a\0b", "new\nline", 5, None, b"bytes"])
def test_wrong_names(name):
    with pytest.raises(etarena.Error):
        etarena.register_delegate(name, TorchDelegate)
    with pytest.raises(etarena.Error):
        etarena.unregister_delegate(name)


def test_classes_that_are_no_delegates():
    with pytest.raises(etarena.InputTypeError, match="itself, not an object"):
        etarena.register_delegate(BACKEND, TorchDelegate())
    with pytest.raises(etarena.InputTypeError, match="defines no execute"):
        etarena.register_delegate(BACKEND, etarena.Delegate)


def test_names_are_taken_once(use):
    use(table())
    for what in (TorchDelegate, table()):
        with pytest.raises(etarena.Error, match=f"unregister_delegate\\('{BACKEND}'\\) first"):
            etarena.register_delegate(BACKEND, what)
    for name in ("XnnpackBackend", "EtarenaPlan"):
        with pytest.raises(etarena.Error, match="backend of ExecuTorch"):
            etarena.register_delegate(name, TorchDelegate)
        with pytest.raises(etarena.Error, match="no delegate is registered"):
            etarena.unregister_delegate(name)


@pytest.mark.parametrize("step", ["init", "scratch_bytes", "requirements", "output_sizes", "execute"])
@pytest.mark.parametrize("status", [1, 4, 99, -7])
def test_functions_that_fail(step, status, program, use):
    use(table(**{step: lambda *_: status}))
    with pytest.raises(etarena.RuntimeFailure, match=BACKEND) as caught:
        load(program).execute([torch.zeros(2, 50)])
    assert {1: "invalid argument", 4: "it failed"}.get(status, f"status {status}") in str(caught.value)


def test_a_text_without_an_end(program, use):
    def execute(*arguments):
        ctypes.memset(arguments[-1].contents, ord("x"), 1024)
        return 4

    use(table(execute))
    with pytest.raises(etarena.RuntimeFailure, match=r"x{1000}"):
        load(program).execute([torch.zeros(2, 50)])


def test_init_that_fails_is_not_closed(program, use):
    closed = []
    use(table(init=lambda *arguments: say(arguments[-1], "not now"), close=lambda *_: closed.append(1)))
    with pytest.raises(etarena.RuntimeFailure, match="init: not now"):
        load(program)
    assert not closed


MANY = """
import etarena
from etarena import Delegate
class Nothing(Delegate):
    def execute(self, args, scratch): pass
made = []
try:
    for i in range(40):
        etarena.register_delegate(f"Backend{i}", Nothing)
        made.append(i)
except etarena.Error as error:
    print(len(made), error)
etarena.unregister_delegate("Backend0")
etarena.register_delegate("Backend0", Nothing)
print("again")
"""


def test_more_backends_than_executorch_has_room_for():
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.strip().split("\n")[-2:]
    assert first.startswith("14 ExecuTorch has no room for backend 'Backend14'")
    assert second == "again"
