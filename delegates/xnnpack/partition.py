"""What is done to a program before XNNPACK's partitioner sees it, so that varying sizes do not cut it up."""

import copy
from collections.abc import Mapping

from executorch.backends.xnnpack.partition.config.generic_node_configs import BMMConfig, ViewCopyConfig
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir.backend.partitioner import Partitioner
from torch.fx.passes.infra.pass_base import PassBase

from .matmul import ProductConfig
from .views import DropIdle, UnfoldProducts, WriteInferredSizes

__all__ = ["prepared"]


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
        XNNPACK's as copies that know what the passes make; the others as they were given.
    """
    passes: dict[str, list[PassBase]] = {}
    for name, entries in partitioners.items():
        chosen: list[PassBase] = []
        if any(_takes(entry, BMMConfig) for entry in entries):
            chosen.append(DropIdle())
            chosen.append(UnfoldProducts())
        if any(_takes(entry, ViewCopyConfig) for entry in entries):
            chosen.append(WriteInferredSizes())
        if chosen:
            passes[name] = chosen
    return passes, {name: [_with_products(entry) for entry in entries] for name, entries in partitioners.items()}


def _takes(partitioner: Partitioner, config: type) -> bool:
    """Whether a partitioner is XNNPACK's and set to take what `config` describes, at any precision."""
    if not isinstance(partitioner, XnnpackPartitioner):
        return False
    found = partitioner.target_partitioner_configs.get(config.target_name)  # type: ignore[attr-defined]
    return found is not None and len(found.enabled_precision_types) > 0


def _with_products(partitioner: Partitioner) -> Partitioner:
    """A copy that takes our products as the original takes ``bmm``; the original stays as it is."""
    if not _takes(partitioner, BMMConfig):
        return partitioner
    config = copy.copy(partitioner.target_partitioner_configs[BMMConfig.target_name])
    config.__class__ = ProductConfig
    extended = copy.copy(partitioner)
    extended.target_partitioner_configs = {
        **partitioner.target_partitioner_configs,
        ProductConfig.target_name: config,
    }
    return extended
