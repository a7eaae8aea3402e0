"""Models whose control flow a planner can get wrong, for one size each."""

import torch
from torch import nn

from .control_flow import cond, map_rows, scan, while_loop

ROW = torch.tensor([1.0, 2.0, 3.0])


class Consecutive(nn.Module):
    """Results of three branches that live together, and views of one."""

    def forward(self, x):
        a = cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        b = cond(x.sum() > -1e9, lambda v: v * 10, lambda v: v * 100, (x,))
        c = cond(x.sum() > 2, lambda v: v - 7, lambda v: v + 7, (x,))
        return a + b, a, b, c.view(1, 3) * 2, c


class Nested(nn.Module):
    """A branch within a branch, with values of the outer one alive across it."""

    def forward(self, x):
        def outer(v, w):
            u = v * 2
            return u + cond(w.sum() > 0, lambda q: q + 5, lambda q: q - 5, (w,))

        a = cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        b = cond(x.sum() > -2, outer, lambda v, w: v * w, (x, a))
        return a, b, a + b


class PassedThrough(nn.Module):
    """A branch that gives back what it was given, and one that gives a value twice."""

    def forward(self, x):
        y = x * 3
        a = cond(x.sum() > 0, lambda v: v + 0, lambda v: (v * 2).view(3, 1).reshape(3), (y,))
        b, c = cond(x.sum() > 1, lambda v: (v + 1, v + 2), lambda v: (v * 2, v * 4), (x,))
        return a.view(1, 3) + y, y.view(3, 1) * 2, b, c


class Mapped(nn.Module):
    """A map whose body needs more than its rows, beside a value that is alive across it."""

    def forward(self, x):
        z = x * 2
        y = map_rows(lambda row, shift: ((row + shift).view(1, 3) * 2).exp().view(3), x, x[0] * 0.5)
        return y.view(-1) + z.view(-1)


class Scanned(nn.Module):
    """A scan with a branch in its body, carried and stacked results."""

    def forward(self, x):
        def step(carried, row):
            chosen = cond(
                row.sum() > 0, lambda r, c: r * c + 1, lambda r, c: (r - c).view(3, 1).reshape(3), (row, carried)
            )
            return chosen + carried, chosen.view(3, 1) * 2

        return scan(step, x[0] + 1, x)


class Swapping(nn.Module):
    """A while loop that carries two values from one place to the other."""

    def forward(self, x):
        start = (torch.zeros(1), x + 1, x * 3)
        _, a, b = while_loop(lambda i, a, b: i.sum() < 4, lambda i, a, b: (i + 1, b * 2, a + 0), start)
        return a, b


class Selecting(nn.Module):
    """Rows whose number data tells, within a bound that follows from the size."""

    def forward(self, x):
        return x[torch.nonzero(x[:, 0] > 0)[:, 0]] * 2, torch.nonzero(x)


class Convolved(nn.Module):
    """No control flow: buffers of many sizes."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.ReLU(), nn.Flatten())

    def forward(self, x):
        return self.layers(x), x.mean((2, 3))


def models():
    """Every model by name, with inputs that take each way."""
    torch.manual_seed(0)
    rows = torch.randn(4, 3)
    return {
        "consecutive": (Consecutive(), [ROW, -ROW]),
        "nested": (Nested(), [ROW, -ROW, ROW * 0]),
        "passed_through": (PassedThrough(), [ROW, -ROW]),
        "mapped": (Mapped(), [rows]),
        "scanned": (Scanned(), [rows, -rows]),
        "swapping": (Swapping(), [ROW]),
        "selecting": (Selecting(), [rows, -rows, rows.abs()]),
        "convolved": (Convolved().eval(), [torch.randn(1, 3, 12, 10)]),
    }
