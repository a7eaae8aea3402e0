"""Several partitioners of one program: each gets whole what it asks for, and what it says is kept by method."""

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from torch import nn

import etarena

ROWS = ({0: torch.export.Dim("rows")},)


class Block(nn.Module):
    """A feed-forward block, and a product with a transposed parameter."""

    def __init__(self):
        super().__init__()
        self.norm, self.first, self.last = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.weight = nn.Parameter(torch.randn(4, 8))

    def forward(self, x):
        return (x + self.last(nn.functional.silu(self.first(self.norm(x))))) @ self.weight.t()


class Attention(nn.Module):
    """Attention written with products over two batch dimensions of any size."""

    def forward(self, x):
        return torch.softmax(x @ x.transpose(-1, -2), -1) @ x


def operators_of(model, args, shapes, partitioners):
    explanation = etarena.explain(model.eval(), args, None, shapes, partitioners=partitioners)
    return explanation.methods[0]["delegate_operators"], explanation.methods[0]["cpu_operators"]


@pytest.mark.parametrize("vulkan_first", [True, False])
def test_each_gets_whole_what_it_asks_for(vulkan_first):
    vulkan = etarena.VulkanPartitioner(skip=["aten.linear", "aten.mm"])
    partitioners = [vulkan, XnnpackPartitioner()] if vulkan_first else [XnnpackPartitioner(), vulkan]
    taken, left = operators_of(Block(), (torch.randn(5, 8),), ROWS, partitioners)
    assert taken["XnnpackBackend"]["aten::linear"] == 2
    assert {"aten::layer_norm", "aten::silu"} <= set(taken["EtarenaVulkan"])
    # A parameter is transposed when the program is made, not by a delegate in every run.
    assert "aten::permute_copy" not in taken["EtarenaVulkan"]
    assert list(left) == ["aten::mm.out"]


def test_products_go_to_the_first_that_takes_them():
    args, shapes = (torch.randn(2, 3, 5, 8),), ({0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC},)
    first, _ = operators_of(Attention(), args, shapes, [etarena.VulkanPartitioner(), XnnpackPartitioner()])
    assert first["EtarenaVulkan"]["aten::bmm"] == 2
    assert "XnnpackBackend" not in first
    vulkan = etarena.VulkanPartitioner(skip=["aten.bmm"])
    second, _ = operators_of(Attention(), args, shapes, [vulkan, XnnpackPartitioner()])
    assert second["XnnpackBackend"]["etarena::batch_matmul"] == 2


def test_what_was_kept_for_nobody_is_taken_apart_where_it_has_no_kernel():
    class Picture(nn.Module):
        def forward(self, x):
            return nn.functional.silu(x)  # channels-last, which Vulkan sees only once views are resolved

    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    partitioner = etarena.VulkanPartitioner()
    exported = etarena.export(Picture(), (x,), partitioners=[partitioner])
    assert not exported.plan().delegates
    assert "its result is not contiguous" in partitioner.reasons["forward"].values()
    (found,) = etarena.load(exported.buffer).method().execute([x])
    torch.testing.assert_close(found, nn.functional.silu(x))


def test_reasons_are_those_of_the_method():
    class Sliced(nn.Module):
        def forward(self, x):
            return torch.sigmoid(x[:, :2])

    partitioner = etarena.VulkanPartitioner()
    methods = {
        "double": (Sliced(), (torch.randn(5, 4, dtype=torch.float64),), None, None),
        "float": (Sliced(), (torch.randn(5, 4),), None, None),
        "varying": (Sliced(), (torch.randn(5, 4),), None, ROWS),
    }
    explanation = etarena.explain(methods, partitioners={"double": [partitioner], "float": [partitioner]})
    by_name = {method["name"]: method for method in explanation.methods}
    assert set(partitioner.reasons) == {"double", "float"}
    assert set(partitioner.reasons["double"].values()) == {"shaders do not know torch.float64"}
    assert partitioner.reasons["float"] == {}
    assert {entry["operator"] for entry in by_name["double"]["not_taken"]} == {"aten::sigmoid", "aten::slice_copy"}
    assert by_name["float"]["not_taken"] == []
    xnnpack = {"float": [XnnpackPartitioner()], "varying": [XnnpackPartitioner()]}
    explanation = etarena.explain({name: methods[name] for name in xnnpack}, partitioners=xnnpack)
    said = {
        method["name"]: [reason for left in method["not_taken"] for reason in left["reasons"]]
        for method in explanation.methods
    }
    assert said["float"] == []
    assert any("dim: rows" in reason for reason in said["varying"])
