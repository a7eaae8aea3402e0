"""Work given to a device, until it is done."""

from __future__ import annotations

import os
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ...allocator.errors import DeviceError
from .commands import Commands, submit
from .errors import WaitTimeoutError
from .sync import Fence, Semaphore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .core import DeviceCore

__all__ = ["Submission", "WorkQueue", "semaphore_points"]

STEP = 0.02  # seconds
_abandoned: list[Submission] = []  # never done when their device was dropped: a leak is better than a crash


def semaphore_points(given: Iterable[Any]) -> list[tuple[Semaphore, int]]:
    """Read semaphores, each alone if binary or as a pair with a value if it is a timeline."""
    points = []
    for item in given:
        semaphore, value = item if isinstance(item, tuple) else (item, None)
        if not isinstance(semaphore, Semaphore):
            raise DeviceError(f"expected a Semaphore or (Semaphore, value), got {type(semaphore).__name__}")
        if semaphore.timeline and value is None:
            raise DeviceError("a timeline semaphore needs the value to wait for or to signal: pass (semaphore, value)")
        points.append((semaphore, value or 0))
    return points


def not_done(timeout: float | None) -> WaitTimeoutError:
    return WaitTimeoutError(
        f"the device was not done within {timeout} s: it may wait for a semaphore that nobody signals",
        code=2,
        code_name="VK_TIMEOUT",
        call="vkWaitForFences",
    )


class Submission:
    """Work given to the queue. It keeps all that it uses open until it is done."""

    def __init__(self, queue: WorkQueue, commands: Commands, fence: Fence, leases: list[Any], recycle: bool) -> None:
        self._queue, self._commands, self._fence, self._leases = queue, commands, fence, leases
        self._recycle = recycle
        self._finished = False
        self._waiters = 0  # threads inside a wait for the fence, which must not be reset under them

    def done(self) -> bool:
        """Whether the device is through with it."""
        with self._queue.lock:
            if not self._finished and self._fence.done():
                self._queue.finish(self)
            return self._finished

    def wait(self, timeout: float | None = 10.0) -> None:
        """Wait for it.

        Raises
        ------
        WaitTimeoutError
            It took more than `timeout` seconds; it still runs, and can be waited for again.
        DeviceLostError
            The device was lost.
        """
        with self._queue.lock:
            if self._finished:
                return
            self._waiters += 1
        try:
            done = self._fence.wait(timeout)
        finally:
            with self._queue.lock:
                self._waiters -= 1
        if not done:
            raise not_done(timeout)
        self._queue.finish(self)

    def settle(self, timeout: float) -> bool:
        """Wait also for a lost device, until its driver is through with it."""
        if not self._finished and self._fence.wait_quietly(timeout):
            self._queue.finish(self)
        return self._finished

    def abort(self) -> None:
        """Let go of what it would have used: it was not submitted."""
        self._recycle = False
        self.release()

    def release(self) -> tuple[Commands | None, Fence | None]:
        """Let go of what it used; gives what can serve the next. The queue's lock is held."""
        self._finished = True
        for lease in self._leases:
            lease.end()
        self._leases = []
        if self._recycle:
            self._commands.forget()
        return self._commands if self._recycle else None, None if self._waiters or self._fence.waiters else self._fence


class WorkQueue:
    """What was given to the queue of a device and is not done; command buffers and fences to use again.

    Parameters
    ----------
    core
        The device.
    lock
        Held while work is submitted: an application that submits to the same queue holds it too.
    """

    def __init__(self, core: DeviceCore, lock: AbstractContextManager[Any] | None) -> None:
        self._core = core
        self._given_lock = lock
        self._submit_lock = nullcontext() if lock is None else lock
        self.lock = threading.RLock()
        self._process = os.getpid()
        self._pending: list[Submission] = []
        self._commands: list[Commands] = []
        self._fences: list[Fence] = []
        self._running: set[Fence] = set()  # of `run`, which needs no Submission

    @property
    def pending(self) -> int:
        """How many submissions are not done."""
        self.collect()
        return len(self._pending) + len(self._running)

    def begin(self) -> Commands:
        """Commands to record and submit once."""
        self.collect()
        with self.lock:
            commands = self._commands.pop() if self._commands else Commands(self._core)
        commands.begin(once=True)
        return commands

    def submit(
        self,
        commands: Commands,
        wait: Iterable[Any] = (),
        signal: Iterable[Any] = (),
        *,
        keep: Iterable[Any] = (),
        recycle: bool = False,
    ) -> Submission:
        """Give ended commands to the device.

        Parameters
        ----------
        commands
            Ended, and not at work already.
        wait, signal
            Semaphores, or pairs of a timeline semaphore and a value.
        keep
            Leases that end when all is done.
        recycle
            The commands came from `begin`.
        """
        before, after = semaphore_points(wait), semaphore_points(signal)
        if commands.uses:
            raise DeviceError("these commands are still at work on the device: wait for them, or record others")
        who = "work of the device"
        leases = [*keep, commands.lease(who), *(semaphore.lease(who) for semaphore, _ in (*before, *after))]
        with self._submit_lock, self.lock:  # in this order: who holds the first may ask for what needs the second
            fence = self._fences.pop() if self._fences else Fence(self._core)
            submission = Submission(self, commands, fence, leases, recycle)
            try:
                submit(commands, before, after, fence)
            except BaseException:
                submission.abort()
                raise
            self._pending.append(submission)
        return submission

    def run(self, commands: Commands, timeout: float | None = 10.0) -> None:
        """Give ended commands to the device and wait until they are done; as quickly as that goes.

        Raises
        ------
        WaitTimeoutError
            They are not done within `timeout` seconds. They go on, and are waited for as any submission is.
        """
        with self.lock:
            fence = self._fences.pop() if self._fences else Fence(self._core)
            self._running.add(fence)
        try:
            done = commands.submit_and_wait(fence, timeout, self._given_lock)
        except BaseException:
            self._leave(commands, fence)
            raise
        if not done:
            self._leave(commands, fence)
            raise not_done(timeout)
        with self.lock:
            self._running.discard(fence)
            if not fence.waiters:
                fence.reset()
                self._fences.append(fence)

    def _leave(self, commands: Commands, fence: Fence) -> None:
        """What `run` gave to the device is not done: it becomes a submission like any other."""
        with self.lock:
            self._running.discard(fence)
            if fence.work is None:  # it was refused
                if not fence.waiters:
                    self._fences.append(fence)
                return
            self._pending.append(Submission(self, commands, fence, [fence.work], recycle=False))
            fence.work = None

    def finish(self, submission: Submission) -> None:
        """Let go of what a submission used: it is done."""
        with self.lock:
            if submission in self._pending:
                self._pending.remove(submission)
                self._reuse(submission)

    def collect(self) -> None:
        """Let go of what is done."""
        with self.lock:
            for submission in list(self._pending):
                submission.done()

    def wait(self, timeout: float | None) -> None:
        """Wait for everything, at most so many seconds for all of it."""
        end = None if timeout is None else time.monotonic() + timeout
        with self.lock:
            waiting, running = list(self._pending), list(self._running)
            for fence in running:
                fence.waiters += 1
        try:
            for submission in waiting:
                submission.wait(None if end is None else max(0.0, end - time.monotonic()))
            for fence in running:
                self._wait_for_run(fence, end, timeout)
        finally:
            with self.lock:
                for fence in running:
                    fence.waiters -= 1

    def _wait_for_run(self, fence: Fence, end: float | None, timeout: float | None) -> None:
        """Wait for what another thread runs. In steps: it may turn out that it was never submitted."""
        while fence in self._running:
            left = STEP if end is None else min(STEP, end - time.monotonic())
            if fence.wait(max(0.0, left)):
                return
            if left <= 0:
                raise not_done(timeout)

    def close(self, timeout: float) -> None:
        """Wait for everything, and drop what is kept for later.

        Raises
        ------
        WaitTimeoutError
            Something is not done in time.
        """
        with self.lock:
            left = [submission for submission in list(self._pending) if not submission.settle(timeout)]
            if left:
                raise WaitTimeoutError(
                    f"{len(left)} submissions are not done: signal the semaphores they wait for, then close again",
                    code=2,
                    code_name="VK_TIMEOUT",
                    call="vkWaitForFences",
                )
            self._commands.clear()
            self._fences.clear()

    def abandon(self) -> None:
        """Let nothing be destroyed that is still in use; for devices that were dropped without being closed."""
        if os.getpid() != self._process:
            return
        with self.lock:
            left = [submission for submission in list(self._pending) if not submission.settle(1.0)]
            if left:
                self._core.abandon()
                _abandoned.extend(left)

    def _reuse(self, submission: Submission) -> None:
        commands, fence = submission.release()
        if self._core.is_lost:
            return
        if fence is not None:
            fence.reset()
            self._fences.append(fence)
        if commands is not None:
            self._commands.append(commands)
