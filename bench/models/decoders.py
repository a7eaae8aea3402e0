"""Text decoders, all positions at once, without a cache; one step of beam search."""

from typing import Any

import torch
from torch import Tensor, nn

from .model import Adapter, Model, ids, model, seeded, subject
from .text import FREE, TEXTS, VOCABULARY

SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 512,
    "use_cache": False,
    "attn_implementation": "eager",
}


def decoder(network: nn.Module) -> Model:
    """A network from token ids to the logits of the next token at every position, any batch and length."""
    module = Adapter(network, ["input_ids"], ["logits"], use_cache=False)
    return subject(module, ids(VOCABULARY), FREE, TEXTS, (4, 11))


@model("decoder")
def llama() -> Model:
    """Rotary positions, grouped queries, gated units (Touvron et al., 2023)."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return decoder(LlamaForCausalLM(LlamaConfig(**SMALL)))


@model("decoder")
def gpt2() -> Model:
    """Learned positions (Radford et al., 2019)."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=512, n_embd=32, n_layer=2, n_head=4, attn_implementation="eager"
    )
    return decoder(GPT2LMHeadModel(config))


@model("decoder")
def qwen2() -> Model:
    """Llama with biases on queries, keys and values (Yang et al., 2024)."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return decoder(Qwen2ForCausalLM(Qwen2Config(**SMALL)))


@model("decoder")
def qwen3() -> Model:
    """Queries and keys normalised (Yang et al., 2025)."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return decoder(Qwen3ForCausalLM(Qwen3Config(**SMALL, head_dim=8)))


@model("decoder")
def gemma() -> Model:
    """Scaled embeddings shared with the output (Gemma team, 2024)."""
    from transformers import GemmaConfig, GemmaForCausalLM

    return decoder(GemmaForCausalLM(GemmaConfig(**SMALL, head_dim=8)))


@model("decoder")
def gemma3() -> Model:
    """Sliding windows between global layers (Gemma team, 2025)."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    return decoder(Gemma3ForCausalLM(Gemma3TextConfig(**SMALL, head_dim=8, sliding_window=8)))


@model("decoder")
def mistral() -> Model:
    """Attention in a sliding window (Jiang et al., 2023)."""
    from transformers import MistralConfig, MistralForCausalLM

    return decoder(MistralForCausalLM(MistralConfig(**SMALL, sliding_window=16)))


@model("decoder")
def bloom() -> Model:
    """Linear biases in place of positions (Press et al., 2022)."""
    from transformers import BloomConfig, BloomForCausalLM

    config = BloomConfig(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4)
    return decoder(BloomForCausalLM(config))


@model("decoder")
def gpt_neox() -> Model:
    """Attention and feed-forward in parallel, partly rotary positions (Black et al., 2022)."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    config = GPTNeoXConfig(**{key: value for key, value in SMALL.items() if key != "num_key_value_heads"})
    return decoder(GPTNeoXForCausalLM(config))


@model("decoder")
def opt() -> Model:
    """Positions counted from the attention mask (Zhang et al., 2022)."""
    from transformers import OPTConfig, OPTForCausalLM

    config = OPTConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        word_embed_proj_dim=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=64,
        max_position_embeddings=512,
        attn_implementation="eager",
    )
    return decoder(OPTForCausalLM(config))


class _BeamStep(nn.Module):
    """Scores of all continuations, the best ones, and the cache in the order of the beams they continue."""

    def __init__(self, width: int = 16, beams: int = 4) -> None:
        super().__init__()
        self.beams = beams
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor, scores: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        hidden = self.embedding(tokens)
        keys = torch.cat([keys, self.key(hidden)[:, None]], 1)
        values = torch.cat([values, self.value(hidden)[:, None]], 1)
        weights = (keys @ self.query(hidden)[:, :, None] / keys.shape[2] ** 0.5).softmax(1)
        hidden = hidden + (weights * values).sum(1)
        total = scores[:, None] + self.head(hidden).log_softmax(1)
        scores, best = total.flatten().topk(self.beams)
        parents = best // VOCABULARY
        return best % VOCABULARY, scores, keys.index_select(0, parents), values.index_select(0, parents)


@model("search")
def beam_step() -> Model:
    """One step of beam search over a cache of any length, from any number of beams to four."""

    def inputs(size: tuple[int, ...]) -> tuple[Tensor, ...]:
        beams, length = size
        generator = seeded(size)
        tokens = torch.randint(VOCABULARY, (beams,), generator=generator)
        keys, values = torch.randn(2, beams, length, 16, generator=generator)
        return tokens, torch.randn(beams, generator=generator), keys, values

    cache = {0: "beams", 1: "length"}
    sizes = [(1, 0), (1, 1), (4, 2), (4, 17), (3, 64), (4, 301)]
    return subject(_BeamStep(), inputs, ({0: "beams"}, {0: "beams"}, cache, cache), sizes, (5, 9))
