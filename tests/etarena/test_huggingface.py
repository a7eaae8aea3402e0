"""Decoders of Transformers with random weights, on growable caches: a prompt in pieces equals the whole at once."""

import pytest
import torch
from torch.export import Dim
from transformers import (
    GemmaConfig,
    GemmaForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

import etarena
from etarena.huggingface import CachedDecoder

from ..helpers.oracle import assert_same, load_exported

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
MODELS = {
    "llama": (LlamaForCausalLM, LlamaConfig, {}),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {}),
    "gemma": (GemmaForCausalLM, GemmaConfig, {"head_dim": 8}),
    "mistral": (MistralForCausalLM, MistralConfig, {"sliding_window": 5}),
}


def model_and_tokens(name):
    kind, config, options = MODELS[name]
    torch.manual_seed(1)
    model = kind(config(**SIZES, **options)).eval()
    return model, torch.randint(0, 97, (1, 24), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("name", MODELS)
def test_a_prompt_and_tokens_after_it(name):
    model, tokens = model_and_tokens(name)
    with torch.no_grad():
        expected = model(tokens).logits
    decoder = CachedDecoder(model)
    program = load_exported(decoder, (tokens[:, :3],), {"input_ids": {1: Dim.DYNAMIC}})
    for _ in range(2):
        for begin, end in [(0, 7), (7, 8), (8, 9), (9, 20), (20, 24)]:
            program.arena.scribble()
            assert_same(program.method().execute([tokens[:, begin:end]])[0], expected[:, begin:end])
        program.reset()


def test_two_methods_and_the_last_token_only():
    model, tokens = model_and_tokens("llama")
    with torch.no_grad():
        expected = model(tokens).logits
    decoder = CachedDecoder(model, last_only=True)
    exported = etarena.export(
        {
            "prefill": (decoder, (tokens[:, :3],), None, {"input_ids": {1: Dim.DYNAMIC}}),
            "decode": (decoder, (tokens[:, :1],)),
        }
    )
    program = etarena.load(exported.buffer, etarena.Arena(1 << 32))
    assert_same(program.method("prefill").execute([tokens[:, :20]])[0], expected[:, 19:20])
    for position in range(20, 24):
        (logits,) = program.method("decode").execute([tokens[:, position : position + 1]])
        assert_same(logits, expected[:, position : position + 1])


def test_what_it_is_not_made_for():
    with pytest.raises(etarena.InputTypeError, match=r"PreTrainedModel, got Linear"):
        CachedDecoder(torch.nn.Linear(2, 2))
    with pytest.raises(etarena.InputError, match="at least 1"):
        CachedDecoder(model_and_tokens("llama")[0], 0)
