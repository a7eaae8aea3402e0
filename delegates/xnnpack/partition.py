"""What is done to a program before XNNPACK's partitioner sees it, so that varying sizes do not cut it up."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from executorch.backends.xnnpack.partition.config.generic_node_configs import BMMConfig, ViewCopyConfig
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir.backend.partitioner import Partitioner
from torch.fx import Node
from torch.fx.passes.infra.pass_base import PassBase

from .matmul import ProductConfig
from .reshapes import RESHAPED, OneVaryingSize
from .views import DropIdle, UnfoldProducts, WriteInferredSizes

__all__ = ["Taken", "prepared", "taken_before"]

Taken: TypeAlias = Callable[[Node], bool]
"""Whether a node goes to a partitioner that comes before XNNPACK's."""


def prepared(
    partitioners: Mapping[str, list[Partitioner]],
) -> tuple[dict[str, list[PassBase]], dict[str, list[Partitioner]]]:
    """Passes to run before the partitioners, and the partitioners to run instead.

    Parameters
    ----------
    partitioners : mapping of str to list of Partitioner
        The partitioners of each method.

    Returns
    -------
    passes : dict of str to list of PassBase
        For each method with a partitioner of XNNPACK what its edge program goes through.
    partitioners : dict of str to list of Partitioner
        XNNPACK's as copies that know what the passes make and leave out what the lowering would refuse for its
        varying sizes; the others as they were given.
    """
    passes: dict[str, list[PassBase]] = {}
    for name, entries in partitioners.items():
        chosen: list[PassBase] = []
        if any(_takes(entry, BMMConfig) for entry in entries):
            chosen.append(DropIdle())
            chosen.append(UnfoldProducts(taken_before(entries)))
        if any(_takes(entry, ViewCopyConfig) for entry in entries):
            chosen.append(WriteInferredSizes())
        if chosen:
            passes[name] = chosen
    return passes, {name: [_extended(entry) for entry in entries] for name, entries in partitioners.items()}


def taken_before(partitioners: Sequence[Partitioner]) -> Taken:
    """What those say to take that come before the first of XNNPACK; passes leave it as it is.

    A partitioner says so by a method ``takes(node)``; of one without it nothing is known.
    """
    first = next((i for i, entry in enumerate(partitioners) if isinstance(entry, XnnpackPartitioner)), 0)
    asked = [entry.takes for entry in partitioners[:first] if hasattr(entry, "takes")]
    return lambda node: any(takes(node) for takes in asked)


def _takes(partitioner: Partitioner, config: type) -> bool:
    """Whether a partitioner is XNNPACK's and set to take what `config` describes, at any precision."""
    if not isinstance(partitioner, XnnpackPartitioner):
        return False
    found = partitioner.target_partitioner_configs.get(config.target_name)  # type: ignore[attr-defined]
    return found is not None and len(found.enabled_precision_types) > 0


def _extended(partitioner: Partitioner) -> Partitioner:
    """A copy of XNNPACK's that takes our products as it takes ``bmm``, and no reshape that XNNPACK cannot make."""
    if not isinstance(partitioner, XnnpackPartitioner):
        return partitioner
    given = partitioner.target_partitioner_configs
    configs = {name: OneVaryingSize(config) if name in RESHAPED else config for name, config in given.items()}
    if _takes(partitioner, BMMConfig):
        product = copy.copy(given[BMMConfig.target_name])
        product.__class__ = ProductConfig
        configs[ProductConfig.target_name] = product
    if all(given.get(name) is config for name, config in configs.items()):
        return partitioner
    extended = copy.copy(partitioner)
    extended.target_partitioner_configs = configs
    return extended
