"""Delegates with one fault each, and the check of the conformance suite that must find it.

Each computes a sine through its scratch, as `Sound` does without a fault.
"""

import threading
import time
import weakref
from typing import Any, ClassVar

import numpy as np
import torch

import etarena

__all__ = ["BACKEND", "BROKEN", "AsksForTooLittle", "NeedsSomething", "Sine", "Sound"]

BACKEND = "ConformanceOfTheTests"


class Sine(torch.nn.Module):
    """The whole model is one delegate."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)


class Sound(etarena.Delegate):
    def scratch_bytes(self, shapes):
        return 4 * int(np.prod(shapes[0]))

    def output_shapes(self, shapes):
        return [shapes[0]]

    def room(self, scratch, x):
        return np.frombuffer(scratch, np.float32, x.size).reshape(x.shape) if x.size else np.empty_like(x)

    def execute(self, args, scratch):
        x, out = np.asarray(args[0]), np.asarray(args[1])
        room = self.room(scratch, x)
        np.sin(x, out=room)
        out[...] = room


class WrongFromItsCache(Sound):
    """Caches results of large inputs, and the wrong ones."""

    def init(self, blob, specs):
        self.results: dict[tuple, Any] = {}

    def execute(self, args, scratch):
        super().execute(args, scratch)
        x, out = np.asarray(args[0]), np.asarray(args[1])
        if x.size > 1000:
            out[...] = self.results.get(x.shape, out)
            self.results[x.shape] = np.zeros_like(x)


class LeavesItsScratchClean(Sound):
    """Counts on zeros, and leaves zeros."""

    def execute(self, args, scratch):
        x, out = np.asarray(args[0]), np.asarray(args[1])
        room = self.room(scratch, x)
        room += np.sin(x)
        out[...] = room
        room[...] = 0


class WritesBehindItsScratch(Sound):
    """Ends a text with a zero that there is no room for. The plan rounds to 64 bytes, so that nothing else is hit."""

    def scratch_bytes(self, shapes):
        return super().scratch_bytes(shapes) // 64 * 64 + 60

    def execute(self, args, scratch):
        import ctypes

        super().execute(args, scratch[:0] if np.asarray(args[0]).size == 0 else scratch)
        view = np.frombuffer(scratch, np.uint8)
        ctypes.memset(view.ctypes.data + view.size, 0, 4)


class AsksForTooLittle(Sound):
    """Reads one vector of 32 bytes beyond what it asked for."""

    def execute(self, args, scratch):
        import ctypes

        super().execute(args, scratch)
        if scratch.nbytes:
            view = np.frombuffer(scratch, np.uint8)
            ctypes.string_at(view.ctypes.data + view.size, 32)


class AsksForMoreEachTime(Sound):
    asked = 0

    def scratch_bytes(self, shapes):
        self.asked += 1
        return super().scratch_bytes(shapes) + 64 * self.asked


class ClosesWhatOthersUse(Sound):
    """The first to be closed closes a table of the class."""

    table: ClassVar[Any] = None

    def init(self, blob, specs):
        type(self).table = np.sin

    def execute(self, args, scratch):
        assert self.table is not None, "the table is closed"
        super().execute(args, scratch)

    def close(self):
        for base in type(self).__mro__:
            if "table" in vars(base):
                base.table = None


class SharesOneRoom(Sound):
    """Keeps the argument in the class while it waits for something."""

    x: ClassVar[Any] = None

    def execute(self, args, scratch):
        SharesOneRoom.x = np.array(args[0])
        time.sleep(0.002)
        x, out = SharesOneRoom.x, np.asarray(args[1])
        assert x.shape == out.shape, "these are another thread's arguments"
        out[...] = np.sin(x)


class TiresOfWork(Sound):
    """Switches to a coarser method once it has been called often."""

    calls = 0

    def execute(self, args, scratch):
        super().execute(args, scratch)
        self.calls += 1
        if self.calls > 20:
            np.asarray(args[1])[...] += np.float32(0.01)


class RemembersAView(Sound):
    """Keeps the arguments that it sees often."""

    calls = 0
    kept = None

    def execute(self, args, scratch):
        super().execute(args, scratch)
        self.calls += 1
        if self.calls == 25:
            self.kept = np.asarray(args[0])


class ContinuesWhereAnotherStopped(Sound):
    """Takes over from a living object that has run, as when a method loads itself anew."""

    living: ClassVar[Any] = weakref.WeakSet()
    ran = False

    def init(self, blob, specs):
        self.start = 1 if any(other.ran for other in self.living) else 0
        self.living.add(self)

    def execute(self, args, scratch):
        super().execute(args, scratch)
        self.ran = True
        np.asarray(args[1])[: self.start] = 7


class ClosesOnlyAfterARun(Sound):
    def execute(self, args, scratch):
        super().execute(args, scratch)
        self.handle = 1

    def close(self):
        del self.handle


class StaysInAList(Sound):
    """Is in a list of the class for ever."""

    everyone: ClassVar[list[Any]] = []

    def init(self, blob, specs):
        self.everyone.append(self)


class StaysBusy(Sound):
    """Is busy from the plan to the end of the call, which may never come."""

    own = threading.local()

    def scratch_bytes(self, shapes):
        assert not getattr(self.own, "busy", False), "busy"
        self.own.busy = True
        return super().scratch_bytes(shapes)

    def execute(self, args, scratch):
        self.own.busy = False
        super().execute(args, scratch)


class NeedsItsName(Sound):
    """Stops when its backend is not registered: then the name is free."""

    def execute(self, args, scratch):
        try:
            etarena.register_delegate(BACKEND, Sound)
        except etarena.Error:
            return super().execute(args, scratch)
        etarena.unregister_delegate(BACKEND)
        raise LookupError(f"{BACKEND} is not registered")


class NeedsSomething(Sound):
    def execute(self, args, scratch):
        super().execute(args, scratch)
        assert np.asarray(args[0]).max() is not None


class LeavesOutputsAtTheirBounds(Sound):
    """Does not say the shapes of its outputs, which only files with upper bounds need."""

    output_shapes = etarena.Delegate.output_shapes

    def execute(self, args, scratch):
        x, out = np.asarray(args[0]), np.asarray(args[1])
        out[: len(x)] = np.sin(x)


class KeepsEveryResult(Sound):
    def init(self, blob, specs):
        self.results: list[Any] = []

    def execute(self, args, scratch):
        super().execute(args, scratch)
        self.results.append(np.array(args[1]).tobytes() + bytes(4096))


LATER_LOADS = {"test_failures", "test_trim_and_reload", "test_unregister_while_held", "test_objects_do_not_share_state"}

# A class, the check that must find its fault with the check's further arguments, and others that may find it too.
BROKEN: list[tuple[type[Sound], str, tuple, set[str]]] = [
    (WrongFromItsCache, "test_equals_eager_at_every_size", (), {"test_failures", "test_trim_and_reload"}),
    (LeavesItsScratchClean, "test_garbage_does_not_matter", (), {"test_stock_files"}),
    (WritesBehindItsScratch, "test_scratch_is_not_overrun", (), {"test_scratch_is_sufficient", "test_stock_files"}),
    (AsksForTooLittle, "test_scratch_is_sufficient", (), set()),
    (AsksForMoreEachTime, "test_scratch_bytes_depend_on_shapes_alone", (), set()),
    (ClosesWhatOthersUse, "test_objects_do_not_share_state", (), LATER_LOADS),
    (SharesOneRoom, "test_threads", (), set()),
    (TiresOfWork, "test_repeated_runs", (), set()),
    (RemembersAView, "test_results_stay_and_views_go", (), {"test_repeated_runs", "test_memory_stays_flat"}),
    (ContinuesWhereAnotherStopped, "test_trim_and_reload", (), LATER_LOADS),
    (ClosesOnlyAfterARun, "test_every_object_is_closed", (), set()),
    (StaysInAList, "test_every_object_is_closed", (), set()),
    (StaysBusy, "test_failures", ("execute", 1), set()),
    (NeedsItsName, "test_unregister_while_held", (), set()),
    (NeedsSomething, "test_empty", (), set()),
    (LeavesOutputsAtTheirBounds, "test_stock_files", (), set()),
    (KeepsEveryResult, "test_memory_stays_flat", (), set()),
]
