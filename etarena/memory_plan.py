"""What a plan looks like to people: buffers with names, places and lifetimes, and the figures of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .device.copies import Copy

__all__ = ["DeviceBytes", "MemoryPlan", "PlannedBuffer", "RunStats"]


@dataclass(frozen=True)
class PlannedBuffer:
    """One buffer of the activation region.

    Attributes
    ----------
    name
        Graph node the buffer came from.
    offset, nbytes
        Place from the arena's base and size, in bytes.
    first, last
        Lifetime: half-open interval of instruction positions.
    dtype
        ExecuTorch ScalarType code.
    shape
        Sizes of the tensor.
    definition
        Operator or delegate that writes it first.
    kind
        ``"activation"`` for the memory of a tensor, ``"scratch"`` for what one call of a delegate works in.
    delegate
        Backend id of the delegate whose scratch it is; empty for a tensor.
    """

    name: str
    offset: int
    nbytes: int
    first: int
    last: int
    dtype: int
    shape: tuple[int, ...]
    definition: str
    kind: Literal["activation", "scratch"] = "activation"
    delegate: str = ""


@dataclass(frozen=True)
class MemoryPlan:
    """The activation region of one method at one set of input shapes.

    Attributes
    ----------
    method
        Name of the method.
    shapes
        Sizes of each tensor input (an int for an int input that is a symbol).
    peak
        Bytes of the activation region that the run needs.
    lower_bound
        Largest sum of the buffers' bytes that are live at any instruction; no plan can be smaller.
    output_bytes, state_bytes
        Bytes of the results and of the mutable buffers, which lie outside the activation region.
    plan_ns
        Time it took to find the plan, in nanoseconds.
    buffers
        The planned buffers.
    instructions
        Operator or delegate of each instruction.
    staged
        The arguments of delegates that are copied, or may be (addresses of inputs are known only in a run), because
        the plan cannot give what the delegate requires; with argument, delegate and requirement.
    """

    method: str
    shapes: tuple[tuple[int, ...] | int, ...]
    peak: int
    lower_bound: int
    output_bytes: int
    state_bytes: int
    plan_ns: int
    buffers: tuple[PlannedBuffer, ...]
    instructions: tuple[str, ...]
    staged: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        """Peak over lower bound; 1.0 is perfect, also for a plan without buffers."""
        return self.peak / self.lower_bound if self.lower_bound else 1.0

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the largest scratch of one delegate call; 0 without delegates."""
        return max((buffer.nbytes for buffer in self.buffers if buffer.kind == "scratch"), default=0)


@dataclass(frozen=True)
class DeviceBytes:
    """What the activations of a run took on one device.

    Attributes
    ----------
    device
        Its name.
    peak
        Bytes of the method's region there.
    lower_bound
        Largest sum of bytes live at any instruction.
    """

    device: str
    peak: int
    lower_bound: int


@dataclass(frozen=True)
class RunStats:
    """Figures of the last run of a method.

    Attributes
    ----------
    arena_bytes
        Bytes of the activation region that the run's plan needs.
    lower_bound_bytes
        Largest sum of live bytes at any instruction.
    output_bytes
        Bytes of the results.
    state_bytes
        Bytes of the mutable buffers after the run, growable caches at their length then.
    delegate_scratch_bytes
        Largest scratch memory of one call of a delegate, which is a buffer of the plan.
    scratch_outside_arena
        Backends of the method that keep scratch memory of their own, outside the arena.
    plan_ns
        Nanoseconds spent planning for this run; 0 when the plan was there already.
    plan_cached
        Whether the plan was there already.
    stages
        Number of times the run was planned; 1 without data-dependent sizes.
    copies
        Every copy of tensor data that was made, with its cause.
    moved_bytes
        Bytes of activations that changed places inside the arena when the run was planned again.
    state_bytes_written
        Bytes that the run wrote into states and mutated inputs: all of a fixed buffer that it changes, of a growable
        cache the new entries.
    device_bytes
        Of each other device than the CPU that the method uses.
    bind_ns
        Nanoseconds spent in giving tensors and delegates their places; 0 when they lay there already.
    """

    arena_bytes: int
    lower_bound_bytes: int
    output_bytes: int
    state_bytes: int
    delegate_scratch_bytes: int
    scratch_outside_arena: tuple[str, ...]
    plan_ns: int
    plan_cached: bool
    stages: int
    copies: tuple[Copy, ...] = field(default=())
    moved_bytes: int = 0
    state_bytes_written: int = 0
    device_bytes: tuple[DeviceBytes, ...] = ()
    bind_ns: int = 0

    @property
    def bytes_copied(self) -> int:
        """Sum of the copies' bytes."""
        return sum(copy.nbytes for copy in self.copies)
