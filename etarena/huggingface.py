"""Decoders of Hugging Face Transformers with caches that grow: one program that reads a prompt and generates.

::

    decoder = etarena.huggingface.CachedDecoder(LlamaForCausalLM(config).eval())
    tokens = torch.export.Dim("tokens")
    example = (torch.zeros(1, 3, dtype=torch.int64),)
    exported = etarena.export(decoder, example, dynamic_shapes={"input_ids": {1: tokens}})
    method = etarena.load(exported.buffer).method()
    (logits,) = method(prompt)             # [1, tokens, vocabulary]; the caches hold the prompt now
    (logits,) = method(next_token)         # [1, 1, vocabulary]
    method.state.reset()                   # another prompt

Needs ``transformers`` (the extra ``etarena[huggingface]``), which is imported when this module is.
"""

import inspect
from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin
from transformers.masking_utils import AttentionMaskInterface

from . import ops
from .allocator.errors import InputError, InputTypeError

__all__ = ["CachedDecoder", "GrowingCache", "GrowingLayer"]

ATTENTION = "etarena"
LENGTH_DIM = 2  # of [batch, key heads, tokens, size]


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Transformers' attention interface on `etarena.ops.attention`; registered as ``"etarena"``."""
    if softcap is not None:
        raise InputError(f"{type(module).__name__} caps its attention scores, which etarena.ops.attention does not do")
    out = ops.attention(query, key, value, scale=scaling, mask=attention_mask, window=sliding_window)
    return out.transpose(1, 2).contiguous(), None


def no_mask(*_: Any, **__: Any) -> None:
    """Transformers' mask interface: `attention` knows which keys are causal and in the window."""


AttentionInterface.register(ATTENTION, attention)
AttentionMaskInterface.register(ATTENTION, no_mask)


class GrowingLayer(CacheLayerMixin):
    """The cache of one attention layer on two growable buffers.

    Parameters
    ----------
    keys, values : torch.Tensor
        Buffers [batch, key heads, 0, size] of the module that is exported.
    past : int
        How many tokens they hold.
    window : int, optional
        How many tokens a query sees, itself included; unlimited by default.
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, past: int, window: int | None = None) -> None:
        super().__init__()
        self.keys, self.values, self.past, self.window = keys, values, past, window
        self.is_sliding = window is not None
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Do nothing: the buffers exist."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the tokens and return all that the queries may see."""
        keep = None if self.window is None else max(self.window - 1, 1)
        return (
            ops.append(self.keys, key_states, LENGTH_DIM, past=self.past, window=keep),
            ops.append(self.values, value_states, LENGTH_DIM, past=self.past, window=keep),
        )

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of the keys."""
        return self.past + query_length, 0

    def get_seq_length(self) -> int:
        """How many tokens the layer holds."""
        return self.past

    def get_max_length(self) -> int:
        """Unlimited, or the window."""
        return -1 if self.window is None else self.window


class GrowingCache(Cache):
    """The caches of all layers.

    Parameters
    ----------
    layers : list of GrowingLayer
        One a decoder layer.
    """

    def __init__(self, layers: list[GrowingLayer]) -> None:
        super().__init__(layers=layers)


class CachedDecoder(torch.nn.Module):
    """A causal language model that keeps its keys and values in growable buffers.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Any whose attention goes through Transformers' attention interface (Llama, Qwen2, Mistral, Gemma, ...), with
        full or sliding-window layers. Its attention implementation is set to ``"etarena"``.
    batch : int
        Sequences decoded together, all of one length; 1 by default.
    last_only : bool
        Whether to compute the logits of the last token alone.

    Raises
    ------
    InputTypeError
        If `model` is no model of Transformers.
    InputError
        If it has layers that are no attention, or `batch` is less than 1.
    """

    def __init__(self, model: PreTrainedModel, batch: int = 1, *, last_only: bool = False) -> None:
        super().__init__()
        if not isinstance(model, PreTrainedModel):
            raise InputTypeError(f"model must be a transformers.PreTrainedModel, got {type(model).__name__}")
        if batch < 1:
            raise InputError(f"batch is the number of sequences, at least 1, got {batch}")
        self.model = model
        self.last_only = last_only
        model.set_attn_implementation(ATTENTION)
        config = model.config.get_text_config()
        self.windows = _windows(config)
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        for i in range(len(self.windows)):
            self.register_buffer(f"keys_{i}", torch.zeros(batch, heads, 0, size, dtype=model.dtype))
            self.register_buffer(f"values_{i}", torch.zeros(batch, heads, 0, size, dtype=model.dtype))
        self.register_buffer("seen", torch.zeros(1, dtype=torch.int64))
        parameters = inspect.signature(type(model).forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Continue the sequences.

        Parameters
        ----------
        input_ids : torch.Tensor
            [batch, tokens], int64: a prompt, or the token after it.

        Returns
        -------
        torch.Tensor
            Logits, [batch, tokens (or 1), vocabulary].
        """
        tokens = input_ids.shape[1]
        positions = (self.seen + torch.arange(tokens)).unsqueeze(0)
        options = {self._cache_argument: self._cache(), "use_cache": True}
        if self.last_only:
            options["logits_to_keep"] = 1
        logits: torch.Tensor = self.model(input_ids=input_ids, position_ids=positions, **options).logits
        self.seen.add_(tokens)
        return logits

    def _cache(self) -> GrowingCache:
        pasts: dict[int | None, int] = {}
        layers = []
        for i, window in enumerate(self.windows):
            keys, values = getattr(self, f"keys_{i}"), getattr(self, f"values_{i}")
            if window not in pasts:  # layers of one kind have one length
                pasts[window] = ops.length(keys, LENGTH_DIM)
            layers.append(GrowingLayer(keys, values, pasts[window], window))
        return GrowingCache(layers)


def _windows(config: Any) -> list[int | None]:
    """For every layer the number of tokens that it sees; None for all."""
    kinds = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    if kinds is None:
        return [window] * int(config.num_hidden_layers)
    known = {"full_attention": None, "sliding_attention": window}
    for kind in kinds:
        if kind not in known:
            raise InputError(f"the model has layers of kind {kind!r}; only full and sliding attention have caches here")
    return [known[kind] for kind in kinds]
