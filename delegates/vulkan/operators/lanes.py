"""Shaders whose invocations work in groups of eight that share what they load."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .call import Call

__all__ = ["LANES", "activation_constants", "group_constants", "lane_shader", "slices", "waves_of"]

LANES = 8
SHUFFLE = 0x10  # VK_SUBGROUP_FEATURE_SHUFFLE_BIT

# In activation.glsl, by the names that a call's argument "activation" has.
ACTIVATIONS = {None: 0, "relu": 1, "clamp": 2, "hardswish": 3, "silu": 4, "gelu": 5, "gelu_tanh": 6}


def waves_of(limits: Mapping[str, int]) -> int:
    """Groups of eight in a workgroup: as many as fill a subgroup, at most eight."""
    return max(1, min(limits.get("subgroupSize", LANES) // LANES, 8))


def lane_shader(name: str, limits: Mapping[str, int]) -> str:
    """The variant for a device: with its subgroups' shuffle, or through shared memory."""
    shuffles = limits.get("subgroupSize", 0) >= LANES and limits.get("subgroupSupportedOperations", 0) & SHUFFLE
    return name if shuffles else f"{name}_shared"


def group_constants(limits: Mapping[str, int]) -> dict[int, int | float]:
    """The size of a workgroup."""
    return {100: LANES, 101: waves_of(limits)}


def activation_constants(call: Call) -> dict[int, int | float]:
    """What is applied to the result: the argument "activation" that fusing adds; "clamp" has "lowest" and "highest"."""
    kind = call.get("activation")
    constants: dict[int, int | float] = {20: ACTIVATIONS[kind]}
    if kind == "clamp":
        constants |= {21: float(call["lowest"]), 22: float(call["highest"])}
    return constants


def slices(count: int, most: int) -> Iterator[tuple[int, int]]:
    """First and length of parts of at most `most`."""
    for first in range(0, count, most):
        yield first, min(most, count - first)
