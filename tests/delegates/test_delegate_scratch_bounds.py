"""Delegates that write past the end of their scratch."""

import ctypes
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower

import etarena
from etarena.quiet import quiet

from ..helpers.backends import SINE, Interleaved, OperatorPartitioner
from ..helpers.function_tables import overrunning, table

ROOT = Path(__file__).parent.parent.parent
BACKEND = "BoundsOfTheTests"
N = torch.export.Dim.DYNAMIC


@pytest.fixture(scope="module")
def files():
    partitioner = OperatorPartitioner(BACKEND, SINE)
    ours = etarena.export(
        Interleaved(), (torch.randn(6, 50),), dynamic_shapes={"x": {0: N}}, partitioners=[partitioner]
    )
    with quiet():
        captured = torch.export.export(Interleaved(), (torch.randn(6, 50),))
        stock = to_edge_transform_and_lower(captured, partitioner=[partitioner]).to_executorch()
    return {"ours": ours.buffer, "stock": stock.buffer}


def run(file, made, **options):
    etarena.register_delegate(BACKEND, made)
    try:
        method = etarena.load(file, etarena.Arena(1 << 32, **options)).method()
        x = torch.randn(6, 50)
        torch.testing.assert_close(method.execute([x])[0], Interleaved()(x), rtol=1e-4, atol=1e-4)
        return method
    finally:
        etarena.unregister_delegate(BACKEND)


@pytest.mark.parametrize("kind", ["ours", "stock"])
@pytest.mark.parametrize("asked", [1, 63, 64, 65, 1000, 4096])
@pytest.mark.parametrize("excess", [1, 17, 64])
def test_writes_past_the_end_are_found(kind, asked, excess, files):
    with pytest.raises(etarena.RuntimeFailure, match=f"{BACKEND}.*past the end of its scratch of {asked} bytes"):
        run(files[kind], overrunning(asked, excess), poison=True)


@pytest.mark.parametrize("kind", ["ours", "stock"])
@pytest.mark.parametrize("options", [{}, {"poison": True}, {"guard": True}, {"poison": True, "guard": True}])
@pytest.mark.parametrize("asked", [0, 1, 64, 100, 4096, 5000])
def test_writing_all_of_it_is_fine(kind, options, asked, files):
    run(files[kind], overrunning(asked, 0), **options)


def test_the_method_works_again(files):
    x = torch.randn(6, 50)
    etarena.register_delegate(BACKEND, bad := overrunning(100, 8))
    method = etarena.load(files["ours"], etarena.Arena(1 << 32, poison=True)).method()
    with pytest.raises(etarena.RuntimeFailure, match="past the end"):
        method.execute([x])
    etarena.unregister_delegate(BACKEND)
    etarena.register_delegate(BACKEND, good := overrunning(100, 0))
    torch.testing.assert_close(method.execute([x])[0], Interleaved()(x), rtol=1e-4, atol=1e-4)
    etarena.unregister_delegate(BACKEND)
    assert bad is not good


def test_scratch_is_garbage_in_arenas_that_poison(files):
    seen = []

    def execute(context, handle, arguments, count, scratch, nbytes, error):
        seen.append(ctypes.string_at(scratch, nbytes))
        ctypes.memset(scratch, 1, nbytes)
        ctypes.memset(arguments[1].data, 0, arguments[1].nbytes)
        return 0

    def scratch_bytes(context, handle, arguments, count, nbytes, error):
        nbytes[0] = 10
        return 0

    etarena.register_delegate(BACKEND, made := table(execute, scratch_bytes=scratch_bytes))
    method = etarena.load(files["ours"], etarena.Arena(1 << 32, poison=True)).method()
    for _ in range(2):
        method.execute([torch.zeros(6, 50)])
    etarena.unregister_delegate(BACKEND)
    assert seen == [b"\xdd" * 10] * 6
    assert made.execute


CRASH = """
import ctypes, sys, torch, etarena
sys.path.insert(0, sys.argv[1])
from tests.helpers.function_tables import overrunning
made = overrunning(4096, int(sys.argv[3]))
etarena.register_delegate(sys.argv[4], made)
etarena.load(sys.argv[2], etarena.Arena(1 << 32, guard=True)).method().execute([torch.randn(6, 50)])
print("no crash")
"""


@pytest.mark.parametrize(("excess", "code"), [(0, 0), (1, -signal.SIGSEGV)])
def test_a_fence_behind_the_scratch(excess, code, files, tmp_path):
    path = tmp_path / "model.pte"
    path.write_bytes(files["ours"])
    command = [sys.executable, "-c", CRASH, str(ROOT), str(path), str(excess), BACKEND]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    assert ("no crash" in done.stdout) == (code == 0)
