"""The pipelines of a device: each compiled once, and what the driver keeps of them on disk."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ...allocator.errors import DeviceError, InputError
from .pipelines import Pipeline, PipelineCache, constant_bits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .core import DeviceCore
    from .info import DeviceInfo

__all__ = ["PipelineStore", "cache_folder"]

VARIABLE = "ETARENA_CACHE_DIR"
MAGIC = b"etarena pipelines 1\n"  # then the SHA-256 of what follows: drivers trust what they are given
LARGEST_FILE = 256 << 20


def cache_folder() -> Path | None:
    """Where compiled pipelines are kept: ``$ETARENA_CACHE_DIR``, or ``etarena`` in the user's folder of caches.

    Returns
    -------
    pathlib.Path or None
        None if the variable is set and empty, or there is no such folder.
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Path(given) / "vulkan" if given else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "etarena" / "vulkan"
    except RuntimeError:  # no home
        return None


class PipelineStore:
    """Pipelines by shader and constants. Several threads may ask at a time.

    Parameters
    ----------
    core, info
        The device.
    """

    def __init__(self, core: DeviceCore, info: DeviceInfo) -> None:
        self._core, self._info = core, info
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._pipelines: dict[tuple[object, ...], tuple[bytes, Pipeline]] = {}
        self._cache: PipelineCache | None = None
        self._compiled = 0  # since the cache was read or written

    def get(
        self,
        name: str,
        code: bytes,
        bindings: str,
        push_bytes: int,
        constants: Mapping[int, int | float | bool],
    ) -> Pipeline:
        """See `Device.pipeline`."""
        key = (name, bindings, push_bytes, constant_bits(constants))
        found = self._pipelines.get(key)
        if found is None:
            with self._lock:
                found = self._pipelines.get(key) or self._compile(key, code, bindings, push_bytes, constants)
        known, pipeline = found
        if known is not code and known != code:
            raise InputError(f"a pipeline {name!r} of other code is there already: give this one another name")
        return pipeline

    def save(self) -> None:
        """Write what was compiled to disk. That it cannot be written is no error: it is compiled again next time."""
        if os.getpid() != self._process:
            return
        with self._lock:
            path = self._path()
            if self._cache is None or not self._compiled or path is None or not self._core.is_open:
                return
            with suppress(OSError, DeviceError):
                write_atomically(path, sealed(self._cache.data()))
                self._compiled = 0

    def close(self) -> None:
        """Write, and drop all pipelines.

        Raises
        ------
        DeviceError
            One is in use.
        """
        self.save()
        with self._lock:
            for key in list(self._pipelines):
                self._pipelines[key][1].close()
                del self._pipelines[key]
            if self._cache is not None:
                self._cache.close()
                self._cache = None

    def _compile(
        self,
        key: tuple[object, ...],
        code: bytes,
        bindings: str,
        push_bytes: int,
        constants: Mapping[int, int | float | bool],
    ) -> tuple[bytes, Pipeline]:
        if self._cache is None:
            self._cache = self._read()
        pipeline = Pipeline(
            self._core, code, bindings=bindings, push_bytes=push_bytes, constants=constants, cache=self._cache
        )
        self._compiled += 1
        self._pipelines[key] = code, pipeline
        return code, pipeline

    def _path(self) -> Path | None:
        folder, info = cache_folder(), self._info
        if folder is None:
            return None
        return folder / f"{info.cache_uuid.hex()}-{info.vendor:x}-{info.device:x}-{info.driver_version:x}.bin"

    def _read(self) -> PipelineCache:
        path = self._path()
        data = None if path is None else opened(read_if_there(path))
        if data:
            with suppress(DeviceError):  # foreign: another driver wrote a file of this name
                return PipelineCache(self._core, data)
        return PipelineCache(self._core)


def sealed(data: bytes) -> bytes:
    """Put before the data what tells whether they are whole."""
    return MAGIC + hashlib.sha256(data).digest() + data


def opened(content: bytes) -> bytes | None:
    """What was sealed; None if that is not what was written."""
    digest, data = content[len(MAGIC) : len(MAGIC) + 32], content[len(MAGIC) + 32 :]
    whole = content.startswith(MAGIC) and hashlib.sha256(data).digest() == digest
    return data if whole else None


def read_if_there(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.stat().st_size <= LARGEST_FILE else b""
    except OSError:
        return b""


def write_atomically(path: Path, content: bytes) -> None:
    """Readers see the old file or the new one, whoever else writes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
