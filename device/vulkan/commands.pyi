from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

from .copy_commands import CopyCommands
from .memory import Buffer, Image
from .pipelines import Pipeline
from .sync import Fence, Semaphore

__all__ = ["Commands", "submit"]

@final
class Commands(CopyCommands):
    def dispatch(
        self,
        pipeline: Pipeline,
        resources: Sequence[tuple[Buffer, int, int] | Image],
        push: bytes,
        groups: tuple[int, int, int],
    ) -> None: ...
    def barrier(self) -> None: ...
    def host_barrier(self) -> None: ...
    def release(
        self, what: Buffer | tuple[Buffer, int, int] | Image, family: int | str, layout: int | None = None
    ) -> None: ...
    def acquire(
        self,
        what: Buffer | tuple[Buffer, int, int] | Image,
        family: int | str,
        layout: int | None = None,
        old_layout: int | None = None,
    ) -> None: ...
    def submit_and_wait(
        self, fence: Fence, timeout: float | None = None, lock: AbstractContextManager[Any] | None = None
    ) -> bool: ...

def submit(
    commands: Commands,
    wait: Iterable[tuple[Semaphore, int]],
    signal: Iterable[tuple[Semaphore, int]],
    fence: Fence,
) -> None: ...
