"""The conformance suite of delegates."""

from __future__ import annotations

import gc
import signal
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from ..allocator.arena import Arena
from ..allocator.errors import Error, RuntimeFailure
from ..delegate_registry import register_delegate
from .delegate_case import ARENA_BYTES, DelegateCase
from .delegate_watch import unraisable, watched
from .forked import traced_in_child

__all__ = ["DelegateSuite"]

_PAGE_BYTES = 4096


class DelegateSuite:
    """Subclass this and give a fixture ``case``: a `DelegateCase`, the same one for all checks as it keeps its exports.

    Checks that look into the delegate (failures, closing) apply to Python classes; for C tables they pass.

    Attributes
    ----------
    allows_empty : bool
        Whether the model can be run at size 0.
    supports_fork : bool
        Whether the delegate can be loaded and run in a forked child.
    threads : int
        How many run at once; 4 by default.
    leak_bytes : int
        By how much memory may grow over 200 runs; 64 KiB of Python's, and 1 MiB more of the process's.
    """

    allows_empty = True
    supports_fork = True
    threads = 4
    leak_bytes = 64 << 10

    @pytest.fixture
    def case(self) -> DelegateCase:
        """The delegate to check."""
        raise NotImplementedError("give a fixture 'case' that returns an etarena.testing.DelegateCase")

    def test_equals_eager_at_every_size(self, case: DelegateCase) -> None:
        """Results are eager mode's while sizes grow and shrink, by every path of the plan cache."""
        with case.registered():
            method = case.method()
            for size in (*case.sizes, *reversed(case.sizes)):
                case.assert_right(method, size, "sizes grow and shrink")

    def test_garbage_does_not_matter(self, case: DelegateCase) -> None:
        """Scratch, intermediate and output memory hold anything before a run."""
        with case.registered():
            arena = Arena(ARENA_BYTES)
            method = case.method(arena)
            for size in case.sizes:
                method.execute(list(case.inputs(size)))  # what is not committed cannot be filled
            for byte in (0x00, 0xFF, 0x3F):
                for size in case.sizes[:2]:
                    arena.scribble(byte)
                    for result in case.assert_right(method, size, f"memory was full of 0x{byte:02x}"):
                        _spoil(result)

    def test_scratch_is_not_overrun(self, case: DelegateCase) -> None:
        """Nothing is written past the bytes that were asked for."""
        with case.registered():
            method = case.method(Arena(ARENA_BYTES, poison=True))
            for size in case.sizes:
                try:
                    method.execute(list(case.inputs(size)))
                except RuntimeFailure as error:
                    if "past the end of its scratch" in str(error):
                        raise AssertionError(f"size {size}: {error}") from error
                    raise

    def test_scratch_is_sufficient(self, case: DelegateCase) -> None:
        """Nothing is read or written past the scratch, which ends at a page without access; runs in a child."""
        if not self.supports_fork:
            return
        with case.registered():
            _ = case.file
            for size in case.sizes:
                inputs = list(case.inputs(size))

                def run(inputs: list[Any] = inputs) -> None:
                    case.method(Arena(ARENA_BYTES, guard=True)).execute(inputs)

                status, trace = traced_in_child(run, seconds=60)
                assert status != -signal.SIGSEGV, f"size {size}: memory behind the scratch was touched\n{trace}"
                assert status == 0, f"size {size}: failed in a child with status {status}\n{trace}"

    def test_scratch_bytes_depend_on_shapes_alone(self, case: DelegateCase) -> None:
        """The same is asked for the same shapes, by any object, in any order."""
        with case.registered():
            asked: dict[int, int] = {}
            for sizes in (case.sizes, tuple(reversed(case.sizes)), case.sizes):
                method = case.method(plan_cache=0)
                for size in (*sizes, *sizes):
                    method.execute(list(case.inputs(size)))
                    run = method.last_run
                    assert run is not None
                    found = run.delegate_scratch_bytes
                    expected = asked.setdefault(size, found)
                    assert found == expected, f"size {size}: {found} bytes of scratch were asked for, before {expected}"
                del method

    def test_objects_do_not_share_state(self, case: DelegateCase) -> None:
        """Methods of two programs run in turns, on one arena and on two, and one outlives the other."""
        with case.registered():
            shared = Arena(ARENA_BYTES)
            methods = [case.method(shared), case.method(shared), case.method()]
            for size, other in zip(case.sizes, reversed(case.sizes), strict=True):
                for number, method in enumerate(methods):
                    case.assert_right(method, size if number % 2 else other, f"method {number} of three, in turns")
            while len(methods) > 1:
                methods.pop(0)
                gc.collect()
                for method in methods:
                    case.assert_right(method, case.sizes[0], "another method was dropped")

    def test_threads(self, case: DelegateCase) -> None:
        """Threads run methods of their own on arenas of their own."""
        with case.registered():
            methods = [case.method() for _ in range(self.threads)]
            faults: list[BaseException] = []
            together = threading.Barrier(self.threads)

            def work(number: int) -> None:
                try:
                    together.wait(60)
                    for turn in range(len(case.sizes)):
                        size = case.sizes[(number + turn) % len(case.sizes)]
                        case.assert_right(methods[number], size, f"thread {number} of {self.threads}")
                except BaseException as error:
                    faults.append(error)

            threads = [threading.Thread(target=work, args=(number,)) for number in range(self.threads)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if faults:
                raise faults[0]

    def test_repeated_runs(self, case: DelegateCase) -> None:
        """The same input gives the same result, however often."""
        import torch

        with case.registered():
            method = case.method()
            inputs = list(case.inputs(case.sizes[0]))
            first = [_copy(result) for result in method.execute(inputs)]
            for call in range(1, 30):
                again = method.execute(inputs)
                for number, (result, right) in enumerate(zip(again, first, strict=True)):
                    torch.testing.assert_close(
                        result, right, rtol=0, atol=0, equal_nan=True, msg=f"call {call} gives another result {number}"
                    )

    def test_results_stay_and_views_go(self, case: DelegateCase) -> None:
        """No view of arguments or scratch is kept, and no earlier result is written to."""
        import torch

        with case.registered():
            method = case.method()
            held = []
            for call in range(30):
                try:
                    results = method.execute(list(case.inputs(case.sizes[call % len(case.sizes)])))
                except RuntimeFailure as error:
                    if "still holds a view" in str(error):
                        raise AssertionError(f"call {call}: {error}") from error
                    raise
                held.append([(result, _copy(result)) for result in results])
            for call, pairs in enumerate(held):
                for result, before in pairs:
                    torch.testing.assert_close(
                        result, before, rtol=0, atol=0, equal_nan=True, msg=f"a result of call {call} changed later"
                    )

    def test_trim_and_reload(self, case: DelegateCase) -> None:
        """A method that loads itself anew works on, and so does another one that is loaded later."""
        with case.registered():
            arena = Arena(ARENA_BYTES)
            method = case.method(arena)
            for size in case.sizes[:3]:
                case.assert_right(method, size, "before trim()")
                method.trim()
                case.assert_right(method, size, "after trim() of the method")
                arena.trim()
                case.assert_right(method, size, "after trim() of the arena")
                case.assert_right(case.method(arena), size, "another one was loaded")

    def test_every_object_is_closed(self, case: DelegateCase) -> None:
        """`close` succeeds once for each object, run or not, and nothing keeps the object."""
        if not case.is_python:
            return
        stand_in, watch = watched(case.delegate)
        with case.registered(stand_in), unraisable() as lost:
            for runs in (0, 1, 2):
                method = case.method()
                for size in case.sizes[:runs]:
                    method.execute(list(case.inputs(size)))
                if runs == 2:
                    method.trim()
                del method
                gc.collect()
        assert not lost, f"close() failed: {lost[0]}"
        assert watch.made > 0, "no delegate of this backend is in the model"
        assert watch.closed == dict.fromkeys(range(watch.made), 1), f"calls of close() by object: {watch.closed}"
        kept = sum(reference() is not None for reference in watch.alive)
        assert kept == 0, f"{kept} of {watch.made} closed delegates are still alive: something refers to them"

    @pytest.mark.parametrize("step", ["init", "scratch_bytes", "execute"])
    @pytest.mark.parametrize("at", [0, 1])
    def test_failures(self, case: DelegateCase, step: str, at: int) -> None:
        """After an error in a method of the delegate, the model can be loaded and run again."""
        if not case.is_python:
            return
        stand_in, watch = watched(case.delegate)
        with case.registered(stand_in):
            arena = Arena(ARENA_BYTES)
            method = case.method(arena)
            case.assert_right(method, case.sizes[0], "before any failure")
            if step not in watch.calls:
                return
            watch.fail_at = {step: watch.calls[step] + at}
            failed = 0
            for size in case.sizes * 2:
                try:
                    if step == "init":
                        method.trim()
                    case.assert_right(method, size, f"around a failure of {step}")
                except RuntimeFailure as error:
                    if "was told to fail" not in str(error):
                        raise AssertionError(f"a failure of {step} led to another one: {error}") from error
                    failed += 1
            assert failed == 1, f"a failure of {step} came through {failed} times"
            watch.fail_at = {}
            for size in case.sizes[:2]:
                case.assert_right(method, size, f"after a failure of {step}")
                case.assert_right(case.method(arena), size, f"loaded after a failure of {step}")

    def test_unregister_while_held(self, case: DelegateCase) -> None:
        """Loaded methods keep a delegate that was taken back; new loads are refused until it is there again."""
        with case.registered():
            method = case.method()
            case.assert_right(method, case.sizes[0], "registered")
            case.unregister()
            for size in case.sizes:
                case.assert_right(method, size, "unregistered while the method is loaded")
            with pytest.raises(Error, match=case.backend):
                case.method()
            register_delegate(case.backend, case.delegate)
            case.assert_right(case.method(), case.sizes[0], "registered again")
            case.assert_right(method, case.sizes[0], "registered again")

    def test_empty(self, case: DelegateCase) -> None:
        """Size 0 gives what eager mode gives, between others."""
        if not self.allows_empty:
            return
        with case.registered():
            method = case.method()
            for size in (0, case.sizes[0], 0):
                case.assert_right(method, size, "with empty inputs")

    def test_stock_files(self, case: DelegateCase) -> None:
        """A file that ExecuTorch planned runs in etarena and in ``executorch.runtime``, below its upper bounds too."""
        if case.stock_file is None:
            return
        from ..quiet import quiet

        with quiet():
            from executorch.runtime import Runtime
        with case.registered():
            limit = case.sizes[0]
            ours = case.method(stock=True)
            program = Runtime.get().load_program(case.stock_file)
            theirs = program.load_method("forward")
            for size in sorted({limit, 1, *(size for size in case.sizes if size <= limit)}, reverse=True):
                case.assert_right(ours, size, "a stock file in etarena")
                case.assert_right(theirs, size, "a stock file in executorch.runtime")

    def test_memory_stays_flat(self, case: DelegateCase) -> None:
        """200 runs after the first ones take no more memory, of Python, of the process, or of the arena."""
        with case.registered():
            method = case.method()
            inputs = [list(case.inputs(size)) for size in case.sizes]

            def run(times: int) -> None:
                for turn in range(times):
                    method.execute(inputs[turn % len(inputs)])
                gc.collect()

            run(100)
            committed, resident = method.arena.stats.activation_committed, _resident_bytes()
            run(200)
            grown = _resident_bytes() - resident
            assert grown < self.leak_bytes + (1 << 20), f"the process grew by {grown} bytes in 200 runs"
            assert method.arena.stats.activation_committed == committed, "the arena grew though sizes did not"
            tracemalloc.start()
            try:
                run(20)
                before = tracemalloc.get_traced_memory()[0]
                run(200)
                grown = tracemalloc.get_traced_memory()[0] - before
            finally:
                tracemalloc.stop()
            assert grown < self.leak_bytes, f"objects of {grown} bytes were left by 200 runs"


def _copy(result: Any) -> Any:
    return result.clone() if hasattr(result, "clone") else result


def _spoil(result: Any) -> None:
    """Fill a result that nobody needs any more: its memory becomes the next one's."""
    if hasattr(result, "fill_"):
        result.fill_(float("nan") if result.is_floating_point() else 1)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
