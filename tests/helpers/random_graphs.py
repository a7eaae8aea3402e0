"""Random models: elementwise operators, views, writes in place, concatenation, slices, reductions, branches and loops.

All values are matrices of `COLUMNS` columns and a variable number of rows, so that any operator may follow any other.
Every operator keeps values within a few units and small changes small.
"""

from __future__ import annotations

import random

import torch
from torch import nn

from .control_flow import cond, while_loop

COLUMNS = 6


def in_place(x, y):
    z = x.clone()
    z[:, 1:3] += y[:, :2]
    z.mul_(0.5)
    return z


def indexed(x, y):
    z = x + 0
    z[torch.arange(x.shape[0])] = y.flip(0)
    return z + x


def branch(x, y):
    return cond(x.sum() > 0.3, lambda a, b: torch.cos(a) * b, lambda a, b: (a - b).flip(1), (x, y))


def branch_of_two(x, y):
    a, b = cond(y.sum() > 0.3, lambda a, b: (a + 1, b.clone()), lambda a, b: (b.clone(), torch.sin(a)), (x, y))
    return a - b


def rounds(x, y):
    return while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, torch.sin(v) + y * 0.5), (0, x))[1]


def swaps(x, y):
    def body(i, a, b):
        return i + 1, b.clone(), torch.sin(a + b)

    return while_loop(lambda i, a, b: i.sum() < 4, body, (torch.zeros(1), x, y))[2]


def branch_in_rounds(x, y):
    def body(i, v):
        return i + 1, cond(v.sum() > 0.3, lambda v, y: torch.sin(v - y), lambda v, y: torch.cos(v) + y, (v, y))

    return while_loop(lambda i, v: i < 3, body, (0, x))[1]


def counted(x, y):
    return torch.sin(y + torch.nonzero(x > 0).to(torch.float32).sum() * 1e-3)


UNARY = [
    torch.sin,
    torch.relu,
    lambda x: x * 0.5 + 1,
    lambda x: torch.sin(x.view(-1)).view(-1, COLUMNS),
    lambda x: x.reshape(-1, 2, 3).transpose(1, 2).reshape(-1, COLUMNS),
    lambda x: x - x.mean(1, keepdim=True),
    lambda x: torch.softmax(x, 1),
    lambda x: x.flip(0),
    lambda x: torch.cat([x[:, 3:], x[:, :3]], 1),
    lambda x: x.abs().amax(1, keepdim=True).expand(-1, COLUMNS) - x,
]
BINARY = [
    torch.add,
    torch.sub,
    lambda x, y: torch.tanh(x) * y,
    torch.maximum,
    lambda x, y: torch.cat([x, y], 0)[: x.shape[0]],
    lambda x, y: torch.cat([x[:, :2], y[:, 2:]], 1),
    lambda x, y: torch.where(x > y, x, y * 0.5),
    in_place,
    indexed,
    branch,
    branch_of_two,
    rounds,
    swaps,
    branch_in_rounds,
    counted,
]


class RandomModel(nn.Module):
    """A model of 3 to 12 operators, chosen by `seed`; returns up to three of its values, the last one among them."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        chosen = random.Random(seed)
        self.operators = []
        for made in range(2, 2 + chosen.randint(3, 12)):
            operands = [chosen.randrange(max(0, made - 4), made) for _ in range(2)]
            operator = chosen.choice(UNARY if chosen.random() < 0.4 else BINARY)
            self.operators.append((operator, operands[: 1 if operator in UNARY else 2]))
        last = 1 + len(self.operators)
        self.returned = sorted({last, *(chosen.randrange(2, last + 1) for _ in range(chosen.randint(0, 2)))})

    def forward(self, x, y):
        values = [x, y]
        for operator, operands in self.operators:
            values.append(operator(*(values[operand] for operand in operands)))
        return tuple(values[position] for position in self.returned)
