"""Operators without a kernel are refused when the model is exported, not when it is loaded."""

import pytest
import torch
from executorch.exir.schema import Operator
from torch import nn

import etarena
from etarena.kernels import check_kernels

from ..helpers.memory_walk import emitted_plan


class Applied(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: x.median(), "aten::median.out"),
        (lambda x: torch.rand_like(x) + x, "aten::rand_like.out"),
        (lambda x: torch.cond(x.sum() > 0, lambda v: v.lgamma(), lambda v: v + 1, (x,)), "aten::lgamma.out"),
    ],
)
def test_an_operator_without_a_kernel_is_named_with_a_way_out(function, operator):
    with pytest.raises(etarena.ExportError, match=rf"no CPU kernel for {operator}\. Write that part .* delegate"):
        etarena.export(Applied(function), (torch.randn(3),))


def test_every_operator_without_a_kernel_is_named():
    emitted = emitted_plan(etarena.export(Applied(lambda x: x + 1), (torch.randn(3),)))
    check_kernels(emitted)
    emitted.operators += [Operator("mine::second", "out"), Operator("mine::first", "")]
    with pytest.raises(etarena.ExportError, match=r"'forward': .* mine::first, mine::second\.out\."):
        check_kernels(emitted)
