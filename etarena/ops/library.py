"""The operator namespace ``etarena``, defined once per process."""

import torch

__all__ = ["LIBRARY", "mark_stateful"]

LIBRARY = torch.library.Library("etarena", "DEF")


def mark_stateful(op: torch._ops.OpOverload) -> None:
    """Keep calls of `op` whose result nobody reads, in torch's graphs and in ExecuTorch's edge dialect."""
    torch.fx.node.has_side_effect(op)
