"""Loading programs: files made by etarena and stock ``.pte`` files."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from .allocator import plan
from .allocator.arena import Arena
from .allocator.errors import Error, InputError, InputTypeError, PlanError
from .libraries import load_libraries
from .loaded import LoadedProgram
from .state import States

if TYPE_CHECKING:
    from typing import TypeAlias

    from typing_extensions import Buffer

    from ._method import PlannedMethod
    from .device.vulkan.device import Device as VulkanDevice
    from .stock_method import StockMethod

    Method: TypeAlias = PlannedMethod | StockMethod

__all__ = ["Method", "Program", "default_arena", "load"]

PLAN_BACKEND = "EtarenaPlan"
_PROGRAM_ALIGNMENT = 16  # Program::kMinimumAlignment of executorch 1.5.1
_default_arena: Arena | None = None


def default_arena() -> Arena:
    """Return the arena of the process, made when it is first needed; programs loaded without one share it."""
    global _default_arena
    if _default_arena is None or _default_arena.is_closed:
        _default_arena = Arena(name="default")
    return _default_arena


def load(
    source: str | os.PathLike[str] | Buffer,
    arena: Arena | None = None,
    *,
    plan_cache: int = 4 << 20,
    anytime: bool = False,
    vulkan: VulkanDevice | None = None,
) -> Program:
    """Load a program.

    Parameters
    ----------
    source
        Path of a ``.pte`` file, which is mapped into memory and must not change while the program lives, or its bytes.
    arena
        Where activations and results live; by default one arena for the whole process.
    plan_cache
        Bytes that each method may keep of plans for shapes seen before (default 4 MiB); the least recently used go.
        With 0 it keeps the one in use alone.
    anytime
        Improve the plan of a shape that comes again, in a thread of its own for up to ten seconds, as long as it is
        above the lower bound; a better one takes its place between two runs (default False).
    vulkan
        The `etarena.vulkan.Device` that delegates on Vulkan use; by default one device for the whole process.

    Returns
    -------
    Program
        Its methods are loaded when they are first asked for.

    Raises
    ------
    PlanError
        If the file was made by etarena and is damaged, or holds a plan of another program.
    RuntimeFailure
        If it is not a program that this version of ExecuTorch reads.
    FileNotFoundError
        If there is no such file.
    InputError, InputTypeError
        If an argument has a value or type that makes no sense; `vulkan` must not be closed.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise PlanError(f"{path} is empty: it is not a .pte program")
            data: mmap.mmap | memoryview = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    else:
        try:
            data = aligned(memoryview(source).cast("B"))
        except TypeError as error:
            raise InputTypeError(f"expected a path or bytes, got {type(source).__name__}") from error
    if arena is not None and not isinstance(arena, Arena):
        raise InputTypeError(f"arena must be an etarena.Arena, got {type(arena).__name__}")
    if plan_cache < 0:
        raise InputError(f"plan_cache is a number of bytes >= 0, got {plan_cache}")
    if vulkan is not None:
        _check_vulkan(vulkan)
    return Program(data, arena or default_arena(), plan_cache, anytime, vulkan)


def _check_vulkan(device: Any) -> None:
    from .device.vulkan.device import Device as VulkanDevice

    if not isinstance(device, VulkanDevice):
        raise InputTypeError(f"vulkan must be an etarena.vulkan.Device, got {type(device).__name__}")
    if device.is_closed:
        raise InputError("vulkan is a device that is closed")


def aligned(data: memoryview) -> memoryview:
    """Return the bytes themselves where ExecuTorch can read them in place, else a copy at a multiple of 16 bytes."""
    import numpy

    array = numpy.frombuffer(data, numpy.uint8)
    if len(array) == 0 or array.ctypes.data % _PROGRAM_ALIGNMENT == 0:
        return data
    room = numpy.empty(len(array) + _PROGRAM_ALIGNMENT, numpy.uint8)
    start = -room.ctypes.data % _PROGRAM_ALIGNMENT
    room[start : start + len(array)] = array
    return room.data[start : start + len(array)]


class Program:
    """A loaded program: got from `load`.

    Attributes
    ----------
    arena : Arena
        Where the activations, results and state of its methods live.
    """

    def __init__(self, data: mmap.mmap | memoryview, arena: Arena, plan_cache: int, anytime: bool, vulkan: Any) -> None:
        load_libraries()
        from ._runtime import NativeProgram

        self.arena = arena
        # Before ExecuTorch reads anything: what follows trusts a file whose digest is right.
        sections = plan.check(data)
        self._loaded = LoadedProgram(NativeProgram(data), arena, plan_cache, anytime, vulkan)
        self._methods: dict[str, Method] = {}
        self._check_sections(sections)

    def _check_sections(self, sections: int) -> None:
        expected = sum(PLAN_BACKEND in self._loaded.native.describe(name)[1] for name in self.method_names)
        if expected != sections:
            raise PlanError(
                f"the file names {expected} plan sections and holds {sections}: it is damaged, export it again"
            )

    @property
    def method_names(self) -> list[str]:
        """Names of the methods, in the order of the file."""
        return self._loaded.native.method_names

    def method(self, name: str = "forward") -> Method:
        """Return a method, loading it when it is first asked for.

        Raises
        ------
        Error
            If the program has no such method.
        RuntimeFailure
            If ExecuTorch cannot load it, for instance because a backend or operator is missing.
        PlanError
            If its plan section does not fit the program.
        """
        if name not in self.method_names:
            raise Error(f"the program has no method {name!r}; it has {', '.join(self.method_names)}")
        if name not in self._methods:
            self._methods[name] = self._load_method(name)
        return self._methods[name]

    @property
    def state(self) -> States:
        """The states of all methods by name: the mutable buffers of the model. Loads every method."""
        for name in self.method_names:
            self.method(name)
        return States(self.arena, self._loaded.states)

    def reset(self) -> None:
        """Give every state its start value."""
        self.state.reset()

    def _load_method(self, name: str) -> Method:
        if PLAN_BACKEND in self._loaded.native.describe(name)[1]:
            from ._method import PlannedMethod

            return PlannedMethod(self._loaded, name)
        from .stock_method import StockMethod

        return StockMethod(self._loaded, name)

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: the program is memory of this process."""
        raise TypeError("a program cannot be pickled: send the path or bytes of its .pte file and load it there")

    def __repr__(self) -> str:
        """Name the methods."""
        return f"<etarena.Program with {', '.join(self.method_names)}>"


def __getattr__(name: str) -> Any:
    """Give ``Method`` for annotations and isinstance checks without loading the runtime at import."""
    if name == "Method":
        load_libraries()
        from ._method import PlannedMethod
        from .stock_method import StockMethod

        return PlannedMethod | StockMethod
    raise AttributeError(name)
