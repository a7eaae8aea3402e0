"""Shaders, commands and copies on a device."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...allocator.errors import DeviceError
from .commands import Commands
from .errors import MissingFeatureError
from .spirv import read_interface
from .submission import semaphore_points
from .sync import QueryPool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .core import DeviceCore
    from .info import DeviceInfo
    from .pipeline_store import PipelineStore
    from .pipelines import Pipeline
    from .requirements import Enabled
    from .submission import Submission, WorkQueue
    from .transfers import Transfers

__all__ = ["DeviceWork"]


class DeviceWork:
    """What gives work to a device: the part of `Device` about it."""

    core: DeviceCore
    info: DeviceInfo
    work: WorkQueue
    transfers: Transfers
    pipelines: PipelineStore
    _enabled: Enabled

    def pipeline(
        self,
        name: str,
        code: bytes,
        bindings: str,
        push_bytes: int,
        constants: Mapping[int, int | float | bool] = MappingProxyType({}),
    ) -> Pipeline:
        """A compute shader, compiled when it is first asked for and kept until the device is closed.

        What the driver compiled is kept in a file for the next process, see `docs/vulkan.md`.

        Parameters
        ----------
        name
            Of the shader, always with the same code.
        code, bindings, push_bytes, constants
            As for `Pipeline`.

        Raises
        ------
        MissingFeatureError
            The shader needs a feature that the device was not made with.
        InputError
            The shader does not fit what is said about it, or one of this name has other code.
        """
        for feature in sorted(read_interface(code).features):
            self._enabled.require_feature(feature, f"the shader {name!r}")
        return self.pipelines.get(name, code, bindings, push_bytes, constants)

    def commands(self) -> Commands:
        """Make commands, to be recorded between ``begin`` and ``end`` and given to `submit`."""
        return Commands(self.core)

    def submit(self, commands: Commands, *, wait: Iterable[Any] = (), signal: Iterable[Any] = ()) -> Submission:
        """Give ended commands to the queue; returns at once.

        Parameters
        ----------
        commands
            Not at work already.
        wait, signal
            Binary semaphores, or pairs of a timeline semaphore and a value.
        """
        return self.work.submit(commands, wait, signal)

    def submit_nothing(self, *, wait: Iterable[Any] = (), signal: Iterable[Any] = ()) -> Submission:
        """Let all that is submitted later wait for semaphores, or signal some when all submitted before is done.

        Parameters
        ----------
        wait, signal
            As for `submit`.
        """
        commands = self.work.begin()
        try:
            commands.end()
            return self.work.submit(commands, wait, signal, recycle=True)
        except BaseException:
            commands.close()
            raise

    def check_semaphores(self, given: Iterable[Any]) -> None:
        """Refuse what is no semaphore, closed, or of another device; items as for `submit`.

        Raises
        ------
        DeviceError
            Says which.
        """
        for place, (semaphore, _) in enumerate(semaphore_points(given)):
            if semaphore.is_closed or semaphore.core is not self.core:
                what = "closed" if semaphore.is_closed else "of another Vulkan device"
                raise DeviceError(f"semaphore {place} is {what}")

    def run(self, commands: Commands, timeout: float | None = 10.0) -> None:
        """Give ended commands to the queue and wait until they are done: `submit` and ``wait`` with less in between.

        Parameters
        ----------
        commands
            Not at work already.
        timeout
            Seconds; None: no end.

        Raises
        ------
        WaitTimeoutError
            They are not done in time. They go on; `wait_idle` waits for them again.
        """
        self.work.run(commands, timeout)

    def copy(
        self,
        to: Any,
        source: Any,
        *,
        wait: Iterable[Any] = (),
        signal: Iterable[Any] = (),
        timeout: float | None = 10.0,
        blocking: bool = True,
    ) -> Submission | None:
        """Copy all bytes of one thing to another of the same size.

        Parameters
        ----------
        to, source
            A `Buffer`, a `Span` of one, an `Image`, an `etarena.ETensor` on this device, or contiguous memory of the
            CPU. At least one is on the device. Images are dense rows of texels, the bytes as they are.
        wait, signal
            As for `submit`; for copies within the device only.
        timeout
            Seconds; None: no end.
        blocking
            False: return the `Submission` at once; for copies within the device only.

        Raises
        ------
        WaitTimeoutError
            The copy is not done in time; it goes on, and keeps what it needs open.
        DeviceError
            Something of another device, without the usage a copy needs, or of a size that does not fit.
        CopyRefusedError
            Bytes go from or to the CPU inside ``etarena.zero_copy()``.
        """
        return self.transfers.copy(to, source, tuple(wait), tuple(signal), timeout, blocking)

    def wait_idle(self, timeout: float | None = 10.0) -> None:
        """Wait for all that was submitted through etarena, at most so many seconds."""
        self.work.wait(timeout)

    def query_pool(self, count: int) -> QueryPool:
        """Make places for time stamps; `nanoseconds` reads them."""
        if self.info.queue_families[self.core.queue_family_index].timestamp_bits == 0:
            raise MissingFeatureError("queues of this family have no time stamps")
        return QueryPool(self.core, count)

    def nanoseconds(self, pool: QueryPool) -> list[float]:
        """Times between the first time stamp of a pool and each of them, in ns.

        Raises
        ------
        DeviceError
            Not all are written.
        """
        ticks = pool.ticks()
        mask = (1 << self.info.queue_families[self.core.queue_family_index].timestamp_bits) - 1
        return [((tick - ticks[0]) & mask) * self.info.timestamp_period for tick in ticks]
