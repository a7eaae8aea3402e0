"""State space models and recurrent networks: a state is carried along the sequence."""

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.nn import functional

from .model import Model, ids, model, seeded, subject
from .text import FREE, TEXTS, VOCABULARY


class _Mamba(nn.Module):
    """A selective state space layer (Gu and Dao, 2023), its recurrence written as a scan."""

    def __init__(self, width: int = 16, states: int = 4) -> None:
        super().__init__()
        inner = 2 * width
        self.states = states
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.project = nn.Linear(width, 2 * inner)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.select = nn.Linear(inner, 2 * states)
        self.step = nn.Linear(inner, inner)
        self.decay = nn.Parameter(torch.arange(1, states + 1).float().log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.head = nn.Linear(inner, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x, gate = self.project(self.embedding(tokens)).chunk(2, 2)
        x = functional.silu(self.conv(x.transpose(1, 2))[..., : x.shape[1]]).transpose(1, 2)
        into, out = self.select(x).chunk(2, 2)
        step = functional.softplus(self.step(x))
        kept = torch.exp(step[..., None] * -self.decay.exp())
        added = (step * x)[..., None] * into[:, :, None, :]

        def advance(state: Tensor, at: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            state = state * at[0] + at[1]
            return state, state.clone()

        start = added.new_zeros(added.shape[0], *added.shape[2:])
        _, states = scan(advance, start, (kept.transpose(0, 1), added.transpose(0, 1)))
        y = (states.transpose(0, 1) * out[:, :, None, :]).sum(3) + self.skip * x
        logits: Tensor = self.head(y * functional.silu(gate))
        return logits


class _Mamba2(nn.Module):
    """The dual form of a state space layer with one decay a head (Dao and Gu, 2024): a masked product."""

    def __init__(self, width: int = 32, heads: int = 4, states: int = 8) -> None:
        super().__init__()
        self.heads, self.states = heads, states
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.norm = nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, states), nn.Linear(width, states)
        self.step = nn.Linear(width, heads)
        self.value = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.norm(self.embedding(tokens))
        step = functional.softplus(self.step(x)).transpose(1, 2)
        passed = -step.cumsum(2)
        length = tokens.shape[1]
        later = torch.arange(length)[:, None] < torch.arange(length)[None, :]
        decay = (passed[..., :, None] - passed[..., None, :]).masked_fill(later, -1e4).exp()
        value = self.value(x).unflatten(2, (self.heads, -1)).transpose(1, 2) * step[..., None]
        mixed = (self.out(x) @ self.into(x).transpose(1, 2))[:, None] * decay
        y = (mixed @ value).transpose(1, 2).flatten(2)
        logits: Tensor = self.head(y * functional.silu(self.gate(x)))
        return logits


class _Recurrence(nn.Module):
    """A gated recurrent unit (Cho et al., 2014), its steps written as a scan."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.width = width
        self.cell = nn.GRUCell(8, width)
        self.head = nn.Linear(width, 5)

    def forward(self, series: Tensor) -> Tensor:
        def advance(state: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
            into = functional.linear(at, self.cell.weight_ih, self.cell.bias_ih)
            back = functional.linear(state, self.cell.weight_hh, self.cell.bias_hh)
            reset, update, fresh = into.chunk(3, 1)
            reset_back, update_back, fresh_back = back.chunk(3, 1)
            update = (update + update_back).sigmoid()
            fresh = (fresh + (reset + reset_back).sigmoid() * fresh_back).tanh()
            state = fresh + update * (state - fresh)
            return state, state.clone()

        start = series.new_zeros(series.shape[1], self.width)
        answers: Tensor = self.head(scan(advance, start, series)[1])
        return answers


class _Tagger(nn.Module):
    """A bidirectional LSTM (Hochreiter and Schmidhuber, 1997) over texts of 12 tokens, unrolled by torch."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        tags: Tensor = self.head(self.lstm(self.embedding(tokens))[0])
        return tags


class _Retention(nn.Module):
    """Retention (Sun et al., 2023) in its parallel form: attention with a decay in place of the softmax."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm = nn.GroupNorm(heads, width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        query, key, value = (
            layer(x).unflatten(2, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        distance = torch.arange(tokens.shape[1])[:, None] - torch.arange(tokens.shape[1])[None, :]
        rates = 1 - 2.0 ** (-2.0 - torch.arange(self.heads))
        decay = torch.where(distance >= 0, rates[:, None, None] ** distance.clamp(min=0), 0.0)
        mixed = ((query @ key.transpose(2, 3)) * decay @ value).transpose(1, 2).flatten(2)
        logits: Tensor = self.head(self.norm(mixed.flatten(0, 1)).reshape(mixed.shape))
        return logits


@model("state space")
def mamba() -> Model:
    """Mamba's selective scan."""
    return subject(_Mamba(), ids(VOCABULARY), FREE, TEXTS, (4, 11))


@model("state space")
def mamba2() -> Model:
    """Mamba-2's dual form."""
    return subject(_Mamba2(), ids(VOCABULARY), FREE, TEXTS, (4, 11))


@model("state space")
def retention() -> Model:
    """A retentive layer."""
    return subject(_Retention(), ids(VOCABULARY), FREE, TEXTS, (4, 11))


@model("recurrent")
def gru() -> Model:
    """Any number of steps and series."""

    def inputs(size: tuple[int, ...]) -> tuple[Tensor]:
        return (torch.randn(*size, 8, generator=seeded(size)),)

    sizes = [(1, 1), (2, 1), (7, 2), (33, 3), (100, 5), (257, 2)]
    return subject(_Recurrence(), inputs, ({0: "steps", 1: "batch"},), sizes, (11, 4))


@model("recurrent")
def lstm() -> Model:
    """Any batch."""
    sizes = [(1, 12), (2, 12), (3, 12), (7, 12), (20, 12), (64, 12)]
    return subject(_Tagger(), ids(VOCABULARY), ({0: "batch"},), sizes, (4, 12))
