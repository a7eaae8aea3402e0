"""Matrix products over any number of batch dimensions as one instruction of XNNPACK.

The edge dialect has only ``bmm``, over one batch dimension. The operator here stands between the passes and XNNPACK:
it is made only where XNNPACK will take it, and no file ever names it.
"""

import torch
from executorch.backends.xnnpack.operators.node_visitor import NodeVisitor, register_node_visitor
from executorch.backends.xnnpack.partition.config.generic_node_configs import BMMConfig
from executorch.backends.xnnpack.serialization.xnnpack_graph_schema import XNNBatchMatrixMultiply, XNNGraph, XNode
from executorch.exir.dialects._ops import ops
from torch import Tensor
from torch.fx import Node

__all__ = ["BATCH_MATMUL", "ProductConfig"]


@torch.library.custom_op("etarena::batch_matmul", mutates_args=())
def batch_matmul(a: Tensor, b: Tensor) -> Tensor:
    """The product [..., m, k] x [..., k, n] -> [..., m, n]; batch dimensions are equal, nothing is broadcast."""
    return torch.matmul(a, b)


@batch_matmul.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty((*a.shape[:-1], b.shape[-1]))


BATCH_MATMUL = ops.edge.etarena.batch_matmul.default
"""The operator in the edge dialect."""


class ProductConfig(BMMConfig):
    """The operator is delegated wherever ``bmm`` is."""

    target_name = "batch_matmul.default"


@register_node_visitor
class _ProductVisitor(NodeVisitor):
    """Writes the operator into XNNPACK's graph."""

    target = "etarena.batch_matmul.default"

    def define_node(self, node: Node, xnn_graph: XNNGraph, vals_to_ids: dict[Node, int], debug_handle: int) -> None:
        self.define_nodes_tensor_inputs_outputs(node, xnn_graph, vals_to_ids)
        left, right = (vals_to_ids[operand] for operand in node.args)
        product = XNNBatchMatrixMultiply(input1_id=left, input2_id=right, output_id=vals_to_ids[node], flags=0)
        xnn_graph.xnodes.append(XNode(xnode_union=product, debug_handle=debug_handle))
