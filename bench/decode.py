"""Generating text with a cache that grows: memory, bytes written and time per token, against a cache of fixed size.

``python -m bench.decode [--tokens N] [--write]``: a Llama-style decoder (4 layers, hidden size 256, 8 heads, 2 key
heads, random weights) generates N tokens greedily, once with `etarena.huggingface.CachedDecoder` and once with caches
of fixed size for N tokens. ``--write`` puts the section "Decoding" into bench/RESULTS.md.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import etarena
from bench.machine import describe
from bench.sections import table, write_sections
from etarena.huggingface import CachedDecoder, GrowingCache, GrowingLayer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LAYERS, HIDDEN, HEADS, KEY_HEADS, VOCABULARY = 4, 256, 8, 2, 2048
EARLY = 64
CHECKED = (1, 2, 63, 64, 65, 500, 1000, 2047, 4095)
PAGE = 4096


def decoder(attention: str) -> LlamaForCausalLM:
    """The same model for every run."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_HEADS,
        max_position_embeddings=8192,
        attn_implementation=attention,
        initializer_range=0.1,
    )
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def bytes_of_tokens(tokens: int) -> int:
    """What keys and values of so many tokens are."""
    return 2 * LAYERS * KEY_HEADS * (HIDDEN // HEADS) * 4 * tokens


@dataclass
class Run:
    """What one way of generating took.

    Attributes
    ----------
    tokens : list of int
        What was generated.
    ns : list of int
        Nanoseconds of each call.
    written, copied : list of int
        Bytes that each call wrote into states, and copied for the caller.
    memory : list of int
        Bytes of the states after each call.
    pages : int
        Usable bytes of the caches at the end, in whole pages.
    """

    tokens: list[int] = field(default_factory=list)
    ns: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    copied: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    pages: int = 0


def generate(method: etarena.Method, count: int, check: Callable[[int, torch.Tensor], None] | None = None) -> Run:
    """Generate greedily from token 1, one token a call."""
    run, token = Run(), torch.ones(1, 1, dtype=torch.int64)
    for step in range(count):
        begin = time.perf_counter_ns()
        (logits,) = method.execute([token])
        run.ns.append(time.perf_counter_ns() - begin)
        stats = method.last_run
        assert stats is not None
        run.written.append(stats.state_bytes_written)
        run.copied.append(stats.bytes_copied)
        run.memory.append(stats.state_bytes)
        if check is not None:
            check(step, logits)
        run.tokens.append(int(token))
        token = logits[:, -1:].argmax(-1)
    blocks = [state.memory for state in method.state.values() if state.dim is not None]
    run.pages = sum(block.usable_bytes for block in blocks)
    return run


def growing(count: int) -> tuple[Run, float]:
    """Generate with caches that grow; also the largest error against eager at the checked steps."""
    exported = etarena.export(CachedDecoder(decoder("sdpa")), (torch.ones(1, 1, dtype=torch.int64),))
    seen: dict[int, torch.Tensor] = {}

    def remember(step: int, logits: torch.Tensor) -> None:
        if step in CHECKED:
            seen[step] = logits[0, -1].clone()

    run = generate(etarena.load(exported.buffer, etarena.Arena()).method(), count, remember)
    with torch.no_grad():
        expected = decoder("sdpa")(torch.tensor([run.tokens])).logits[0]
    errors = [float((seen[step] - expected[step]).abs().max() / expected[step].abs().max()) for step in seen]
    return run, max(errors)


class _FixedLayer(GrowingLayer):
    """A layer's cache for as many tokens as may come, each written to its place."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, place: torch.Tensor) -> None:
        super().__init__(keys, values, 0)
        self.place = place

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.keys.copy_(torch.where(self.place, key_states, self.keys))
        self.values.copy_(torch.where(self.place, value_states, self.values))
        return self.keys, self.values


class FixedDecoder(CachedDecoder):
    """The same decoder with caches of fixed size, one token a call."""

    def __init__(self, model: LlamaForCausalLM, count: int) -> None:
        super().__init__(model)
        for name, buffer in list(self.named_buffers(recurse=False)):
            if name != "seen":
                self.register_buffer(name, torch.zeros(*buffer.shape[:2], count, buffer.shape[3]))
        self.count = count

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        places = torch.arange(self.count)
        place = (places == self.seen)[:, None]
        layers = [_FixedLayer(getattr(self, f"keys_{i}"), getattr(self, f"values_{i}"), place) for i in range(LAYERS)]
        options = {self._cache_argument: GrowingCache(layers), "use_cache": True}
        mask = (places <= self.seen)[None, None, None]
        positions = (self.seen + 0).unsqueeze(0)
        logits: torch.Tensor = self.model(
            input_ids=input_ids, position_ids=positions, attention_mask=mask, **options
        ).logits
        self.seen.add_(1)
        return logits


def fixed(count: int) -> Run:
    """Generate with caches of fixed size, of which every call writes all."""
    exported = etarena.export(FixedDecoder(decoder("sdpa"), count), (torch.ones(1, 1, dtype=torch.int64),))
    return generate(etarena.load(exported.buffer, etarena.Arena()).method(), min(count, 4 * EARLY))


def section(run: Run, error: float, static: Run) -> str:
    """The section of RESULTS.md."""
    count = len(run.tokens)

    def at(step: int) -> list[str]:
        near = run.ns[max(0, step - 32) : step]
        return [
            f"{step:,}",
            f"{run.written[step - 1]:,}",
            f"{run.copied[step - 1]:,}",
            f"{run.memory[step - 1] - 8:,}",
            f"{bytes_of_tokens(step):,}",
            f"{statistics.median(near) / 1e6:.2f}",
        ]

    steps = [step for step in (EARLY, 256, 1024, 2048, 4096) if step <= count]
    heads = ["token", "bytes written", "bytes copied", "cache bytes", "tokens need", "ms a token"]
    early = run.memory[EARLY - 1] / static.memory[EARLY - 1]
    intro = (
        f"`python -m bench.decode --tokens {count} --write`: a Llama-style decoder ({LAYERS} layers, hidden size "
        f"{HIDDEN}, {HEADS} heads, {KEY_HEADS} key heads, float32, random weights) generates {count:,} tokens, one a "
        "call, with `etarena.huggingface.CachedDecoder`. `bytes written`: by one call into all states; `bytes copied`: "
        "the copy ledger of that call; `ms a token`: median of the 32 calls before."
    )
    pages = run.pages / bytes_of_tokens(count)
    against = (
        f"With caches of fixed size for {count:,} tokens instead, which each call writes as a whole: "
        f"{static.memory[0]:,} bytes of state from the first token on (growing: {early:.1%} of that at token {EARLY}), "
        f"{static.written[0]:,} bytes written a token, {statistics.median(static.ns) / 1e6:.2f} ms a token (growing: "
        f"{statistics.median(run.ns) / 1e6:.2f})."
    )
    lines = [
        "## Decoding",
        "",
        intro,
        "",
        table(heads, [at(step) for step in steps]),
        "",
        f"- Largest difference of the logits from eager at sampled steps, over their magnitude: {error:.1e}.",
        f"- Memory of the caches in pages, at the end: {pages:.4f} x what the tokens need.",
        f"- {against}",
        f"- {', '.join(f'{name}: {value}' for name, value in describe())}.",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    run, error = growing(options.tokens)
    text = section(run, error, fixed(options.tokens))
    print(text)
    if options.write:
        write_sections(text)


if __name__ == "__main__":
    main()
