"""Runs that wait for semaphores of Vulkan and signal others."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..device.vulkan.submission import semaphore_points

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..device.vulkan.device import Device

__all__ = ["between_semaphores"]


@contextmanager
def between_semaphores(
    device: Device, wait: Iterable[Any], signal: Iterable[Any], timeout: float | None
) -> Iterator[None]:
    """Let the work of a block begin after some semaphores are signalled, and signal others when the device is done.

    Parameters
    ----------
    device
        Whose semaphores they are.
    wait, signal
        Binary semaphores, or pairs of a timeline semaphore and a value.
    timeout
        Seconds to wait for the first; None: no end.

    Raises
    ------
    WaitTimeoutError
        They were not signalled in time: the block did not begin. Timeline semaphores are waited for here and leave
        nothing behind; a binary one is still waited for by the device's queue: signal it.
    DeviceError
        A semaphore is closed, of another device, or could never be signalled.
    """
    before, after = tuple(wait), tuple(signal)
    device.check_semaphores((*before, *after))
    if before:
        wait_for(device, before, timeout)
    yield
    if after:
        device.submit_nothing(signal=after)


def wait_for(device: Device, before: tuple[Any, ...], timeout: float | None) -> None:
    """Wait for semaphores, so that the queue's later work sees what was done ahead of them.

    A queue that waits blocks all that is given to it later. So timeline semaphores come first and are waited for by
    the CPU: the queue waits for them only once they are signalled.
    """
    end = None if timeout is None else time.monotonic() + timeout
    for semaphore, value in semaphore_points(before):
        if semaphore.timeline:
            semaphore.wait(value, remaining(end))
    device.submit_nothing(wait=before).wait(remaining(end))


def remaining(end: float | None) -> float | None:
    """Seconds until a time of the monotonic clock."""
    return None if end is None else max(0.0, end - time.monotonic())
