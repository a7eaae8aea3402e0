"""Mixtures of experts: tokens go to the experts that a router chooses."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from .decoders import SMALL, decoder
from .model import Model, model, seeded, subject


@model("mixture of experts")
def mixtral() -> Model:
    """Two of four experts a token (Jiang et al., 2024), their weights gathered."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(**SMALL, num_local_experts=4, num_experts_per_tok=2, experts_implementation="batched_mm")
    return decoder(MixtralForCausalLM(config))


@model("mixture of experts")
def qwen2_moe() -> Model:
    """Many narrow experts and a shared one (Yang et al., 2024), their weights gathered."""
    from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

    config = Qwen2MoeConfig(
        **SMALL,
        num_experts=6,
        num_experts_per_tok=2,
        moe_intermediate_size=24,
        shared_expert_intermediate_size=32,
        experts_implementation="batched_mm",
    )
    return decoder(Qwen2MoeForCausalLM(config))


class _Routed(nn.Module):
    """Each expert sees only its tokens, found by ``nonzero``; results are added where they belong."""

    def __init__(self, width: int = 16, experts: int = 4, chosen: int = 2) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width)) for _ in range(experts)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        weights, chosen = self.router(tokens).softmax(1).topk(self.chosen)
        weights = weights / weights.sum(1, keepdim=True)
        total = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, ranks = (chosen == number).nonzero(as_tuple=True)
            total = total.index_add(0, rows, expert(tokens[rows]) * weights[rows, ranks][:, None])
        return total


class _Masked(nn.Module):
    """One expert a token (Fedus et al., 2022), tokens taken and put back by boolean masks."""

    def __init__(self, width: int = 16, experts: int = 3) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, tokens: Tensor) -> Tensor:
        weight, chosen = self.router(tokens).softmax(1).max(1)
        total = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            mine = chosen == number
            total[mine] = functional.relu(expert(tokens[mine])) * weight[mine][:, None]
        return total


def tokens(size: tuple[int, ...]) -> tuple[Tensor]:
    return (torch.randn(size[0], 16, generator=seeded(size)),)


COUNTS = [(1,), (2,), (7,), (33,), (128,), (500,)]


@model("mixture of experts", data_dependent=True)
def routed_experts() -> Model:
    """Token counts per expert that depend on the data."""
    return subject(_Routed(), tokens, ({0: "tokens"},), COUNTS, (19,))


@model("mixture of experts", data_dependent=True)
def masked_experts() -> Model:
    """The same by boolean masks."""
    return subject(_Masked(), tokens, ({0: "tokens"},), COUNTS, (19,))
