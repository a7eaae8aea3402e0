"""What is told of models ahead of time, beside what a run shows: every value, and the memory of sizes nobody has run.

    python -m bench.propagation [MODEL ...] [--write]

Each model is propagated at its largest size, with every allocation of torch recorded, and then run by eager PyTorch
under the same recorder; and it is exported without bounds, its memory predicted from the file for 100 random sizes, and
each of them run. One more row propagates a decoder of 70 billion parameters. A model runs in a process of its own, and
the rows are kept in out/propagation.json: a run of some models replaces theirs.
"""

import argparse
import logging
import random
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import describe
from bench.models import MODELS
from bench.rows import keep_rows, measured_apart, printed
from bench.sections import table, write_sections
from etarena.allocator.errors import Error

__all__ = ["Row", "measure", "section"]

KEPT = Path("out/propagation.json")
SECONDS = 900
SHAPES = 100
DRAWS = 10_000
BOX = 8  # bytes of the tensor into which torch puts a Python number for an operator that takes only tensors
LARGE = "llama 70b"
# See NOTES for what is left out and why.
NAMES = (
    *("bert", "roberta", "distilbert", "albert", "mpnet", "modernbert", "t5_encoder", "t5", "bart"),
    *("wav2vec2", "hubert", "whisper_encoder", "spectrogram_transformer", "hifi_gan", "normed_unet", "slot_attention"),
    *("mobilenet_v2", "resnet", "regnet", "efficientnet", "poolformer", "bloom", "opt", "beam_step", "unet", "espcn"),
    *("mamba2", "retention"),
)
HEADING = "## Ahead of time: values and memory of sizes nobody has run"
NOTES = f"""\
`values`: results of operators, in order, that `etarena.propagate` told of; `differ`: how many of them have another
operator, shape, dtype, device or stride than in a run of eager PyTorch. `allocated`: bytes that torch allocated on the
way, other than in `boxes` of {BOX} bytes, in which PyTorch hands single Python numbers to its operators and which it
frees at once. `predicted / measured`: what `etarena estimate` says of {SHAPES} random sizes (fewer where a model has
fewer), without running them, over `arena_bytes` of the run of each: the ratio furthest from 1. The last row is a
configuration of Llama with 70 billion parameters in bfloat16, built without memory, 2048 tokens, on four devices:
`resident` is the largest resident memory of the whole process, PyTorch and Transformers included.

These are not all of `bench/models`. Left out are models whose code asks whether it is traced and then calls other
operators (decoders of Transformers among them), models with sizes that only data tells, and models in which a first
comparison showed other strides of dimensions of size 1, where PyTorch's descriptions of operators and their kernels do
not always agree. A row is that of the model's last run, whatever ran beside it; rows may come from different states of
the project."""


@dataclass
class Row:
    """What was found of one model.

    Attributes
    ----------
    name : str
        The model.
    values, differ : int
        Results that were told, and those of them that a run contradicts.
    allocated, boxes : int
        Bytes that torch allocated but for boxes of numbers, and the number of these.
    shapes : int
        Sizes whose memory was predicted and measured.
    worst : float
        Predicted over measured, where it is furthest from 1; 0 if nothing was measured.
    seconds : float
        Time of the propagation.
    resident : int
        Largest resident memory of the process, in KiB.
    failure : str
        What went wrong.
    """

    name: str
    values: int = 0
    differ: int = 0
    allocated: int = 0
    boxes: int = 0
    shapes: int = 0
    worst: float = 0.0
    seconds: float = 0.0
    resident: int = 0
    failure: str = ""


def measure(name: str) -> Row:
    """Compare one model, in this process."""
    row = Row(name)
    try:
        if name == LARGE:
            _propagate_large(row)
        else:
            model = MODELS[name].make()
            _compare_values(row, model)
            _compare_memory(row, model)
    except Exception as error:
        row.failure = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    row.resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return row


def _compare_values(row: Row, model: Any) -> None:
    import torch

    import etarena
    from etarena.propagation.recorder import Recorder

    inputs = model.inputs(model.sizes[-1])
    told = _recorded(row, lambda: etarena.propagate(model.module, inputs))
    recorder = Recorder()
    with torch.no_grad(), recorder:
        kept = model.module(*inputs)
    shown = recorder.results()
    del kept
    results = [value for value in told.values if value.kind == "result"]
    row.values = len(results)
    row.differ = abs(len(results) - len(shown)) + sum(
        _facts(one) != _facts(two) for one, two in zip(results, shown, strict=False)
    )


def _facts(value: Any) -> tuple[Any, ...]:
    return value.op, value.shape, value.dtype, str(value.device), value.stride


def _recorded(row: Row, call: Any) -> Any:
    """Call something with torch's allocations recorded."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.ones(1)  # what torch allocates once is none of the call's
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        begin = time.perf_counter()
        found = call()
        row.seconds = time.perf_counter() - begin
    events = [event.nbytes() for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    row.boxes = sum(nbytes == BOX for nbytes in events)
    row.allocated = sum(nbytes for nbytes in events if nbytes > 0 and nbytes != BOX)
    return found


def _compare_memory(row: Row, model: Any) -> None:
    import etarena
    from etarena.propagation.sections import SectionEstimator, sections_of

    exported = etarena.export(model.module, model.inputs(model.example), dynamic_shapes=model.dynamic_shapes())
    (found,) = sections_of(exported.buffer)
    estimator = SectionEstimator(found)
    method = etarena.load(exported.buffer, arena=etarena.Arena(name=row.name)).method("forward")
    row.worst = 1.0
    for inputs in _random_inputs(model, estimator):
        predicted = estimator.memory(estimator.sizes_for([tuple(one.shape) for one in inputs])).peak
        method.execute(list(inputs))
        measured = method.last_run.arena_bytes
        ratio = predicted / measured if measured else 1.0 if predicted == 0 else float("inf")
        row.worst = max(row.worst, ratio, key=lambda one: abs(one - 1))
        row.shapes += 1


def _random_inputs(model: Any, estimator: Any) -> Any:
    """Inputs of `SHAPES` different sizes between the model's smallest and largest, all of which the model takes."""
    generator = random.Random(0)
    low, high = ([edge(column) for column in zip(*model.sizes, strict=True)] for edge in (min, max))
    seen, taken = set(model.sizes), 0
    for _ in range(DRAWS):
        size = tuple(generator.randint(one, two) for one, two in zip(low, high, strict=True))
        if size in seen:
            continue
        seen.add(size)
        try:
            inputs = model.inputs(size)
            estimator.memory(estimator.sizes_for([tuple(one.shape) for one in inputs]))
        except (Error, RuntimeError, ValueError):
            continue  # no size for this model
        yield inputs
        taken += 1
        if taken == SHAPES:
            return


def _propagate_large(row: Row) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    import etarena

    config = LlamaConfig(
        hidden_size=8192,
        intermediate_size=28672,
        num_hidden_layers=80,
        num_attention_heads=64,
        num_key_value_heads=8,
        vocab_size=128256,
        use_cache=False,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    assert sum(one.numel() for one in model.parameters()) > 70e9
    places = {"": "cuda:0", "lm_head": "cuda:3", **{f"model.layers.{at}": f"cuda:{at // 20}" for at in range(80)}}
    ids = torch.zeros(1, 2048, dtype=torch.long, device="meta")
    told = _recorded(row, lambda: etarena.propagate(model, (ids,), device_map=places))
    row.values = sum(value.kind == "result" for value in told.values)


def apart(name: str) -> Row:
    """`measure` in a process of its own."""
    return measured_apart(Row(name), "bench.propagation", "--one", name, seconds=SECONDS)


def section(rows: Sequence[Row]) -> str:
    """The section of RESULTS.md."""
    heads = ("model", "values", "differ", "allocated", "boxes", "sizes", "predicted / measured", "seconds", "resident")
    good = [row for row in rows if not row.failure]
    compared = [row for row in good if row.shapes]
    equal = sum(row.differ == 0 for row in compared)
    worst = max((row.worst for row in compared), key=lambda one: abs(one - 1), default=1.0)
    summary = (
        f"Every value of {equal} of {len(compared)} models is as in the run; no tensor was allocated for "
        f"{sum(row.allocated == 0 for row in good)} of {len(good)}. "
        f"The prediction furthest off is {worst:.4f} of what was measured."
    )
    parts = [HEADING, NOTES, "```\npython -m bench.propagation --write\n```", table(("", ""), describe()), summary]
    failed = [f"{row.name}: {row.failure}" for row in rows if row.failure]
    return "\n\n".join([*parts, table(heads, [_cells(row) for row in good]), *failed])


def _cells(row: Row) -> tuple[str, ...]:
    measured = row.shapes > 0
    return (
        row.name,
        str(row.values),
        str(row.differ) if measured else "",
        f"{row.allocated} B",
        str(row.boxes),
        str(row.shapes) if measured else "",
        f"{row.worst:.4f}" if measured else "",
        f"{row.seconds:.2f}",
        f"{row.resident / (1 << 20):.2f} GiB",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"{', '.join(NAMES)}, {LARGE}; all by default")
    parser.add_argument("--write", action="store_true", help="put the section into bench/RESULTS.md")
    parser.add_argument("--one", metavar="MODEL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    if arguments.one:
        print(printed(measure(arguments.one)))
        return
    names = (*NAMES, LARGE)
    unknown = sorted(set(arguments.models) - {*MODELS, LARGE})
    if unknown:
        parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(names)}")
    known: list[Row] = []
    for name in arguments.models or names:
        row = apart(name)
        known = keep_rows([row], KEPT, Row, lambda one: one.name, names)
        print(" | ".join((*_cells(row), row.failure)), flush=True)
        if arguments.write:
            write_sections(section(known))
    sys.exit(any(row.failure for row in known))


if __name__ == "__main__":
    main()
