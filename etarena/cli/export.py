"""``etarena export``: a model becomes a .pte file that runs at any size, or one whose memory is fixed now."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

from ..allocator.gate import require_run_time
from ..description import describe_method
from ..report.units import bytes_text
from .command import Answer, Command, step
from .describe import print_method
from .dynamic import FORMS, dynamic_shapes
from .source import Source, load_source
from .static import static_answer

if TYPE_CHECKING:
    from ..allocator.plan import Method

PARTITIONERS = {
    "vulkan": ("etarena.delegates.vulkan.partitioner", "VulkanPartitioner"),
    "xnnpack": ("executorch.backends.xnnpack.partition.xnnpack_partitioner", "XnnpackPartitioner"),
}


@click.command(cls=Command)
@click.argument("source")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The .pte to write; required unless --explain only explains.",
)
@click.option(
    "--backend",
    "backends",
    type=click.Choice(["cpu", *PARTITIONERS]),
    multiple=True,
    default=("cpu",),
    show_default=True,
    help="Lower what it supports to this backend; the rest runs on the CPU kernels. "
    "Repeatable: the first has the choice.",
)
@click.option(
    "--dynamic",
    "dynamic",
    multiple=True,
    metavar="SPEC",
    help=f"A dimension that may vary: {FORMS}. Replaces the dynamic_shapes of SOURCE. Repeatable.",
)
@click.option(
    "--memory",
    type=click.Choice(["runtime", "static"]),
    default="runtime",
    show_default=True,
    help="When memory is planned: when sizes are known, or now, for their upper bounds and the stock runtime.",
)
@click.option(
    "--explain",
    "wants_explanation",
    is_flag=True,
    help="Say what varies, what is planned when and what runs where; of a refused model, everything in its way.",
)
def export(
    source: str,
    output: Path | None,
    backends: tuple[str, ...],
    dynamic: tuple[str, ...],
    memory: str,
    wants_explanation: bool,
) -> Answer:
    """Export SOURCE for run-time memory planning, or with a plan for the stock runtime.

    SOURCE is an archive of torch.export.save (model.pt2), or MODULE:CALLABLE or FILE.py:CALLABLE that returns
    (model, args[, kwargs[, dynamic_shapes]]).
    """
    if output is None and not wants_explanation:
        raise click.UsageError("Missing option '-o' / '--output': the .pte to write (only --explain needs none).")
    if memory == "static" and wants_explanation:
        raise click.UsageError("--explain tells of plans made at run time: leave --memory static out")
    with step(f"Loading {source}"):
        loaded = load_source(source)
    shapes = _shapes(loaded, list(dynamic))
    with step("Exporting"):
        if wants_explanation:
            return _explained(output, _export("explain", loaded, shapes, backends))
        exported = _export("export", loaded, shapes, backends, memory=memory)
    assert output is not None
    exported.save(output)
    if memory == "static":
        return static_answer(output, exported)
    return _answer(output, len(exported.buffer), exported.plan("forward"))


def _explained(output: Path | None, explanation: Any) -> Answer:
    data = explanation.to_dict()
    if explanation.exported is not None and output is not None:
        explanation.exported.save(output)
        data |= {"path": str(output), "bytes": len(explanation.exported.buffer)}
    count = len(explanation.refusals)
    failed = f"the model cannot be exported, for {count} reason{'s' * (count != 1)}" if count else ""
    return Answer(data, lambda console: console.print(str(explanation), markup=False, soft_wrap=True), failed)


def _shapes(source: Source, dynamic: list[str]) -> Any:
    if not dynamic:
        return source.dynamic_shapes
    if source.exported:
        raise click.UsageError("--dynamic needs a model: the shapes of a .pt2 are fixed when it is made")
    return dynamic_shapes(source.model, source.args, source.kwargs, dynamic)


def _export(how: str, source: Source, shapes: Any, backends: tuple[str, ...], **options: Any) -> Any:
    """Call `etarena.export` or `etarena.explain`, whose parameters are the same."""
    import etarena

    if "vulkan" in backends:
        require_run_time("--backend vulkan")
    chosen = [PARTITIONERS[name] for name in dict.fromkeys(backends) if name != "cpu"]
    partitioners = [getattr(importlib.import_module(module), name)() for module, name in chosen]
    if source.exported:
        return getattr(etarena, how)(source.model, partitioners=partitioners, **options)
    parts = (source.model, source.args, source.kwargs or None, shapes)
    return getattr(etarena, how)(*parts, partitioners=partitioners, **options)


def _answer(output: Path, nbytes: int, method: "Method") -> Answer:
    data: dict[str, Any] = {"path": str(output), "bytes": nbytes, "methods": [describe_method(method)]}

    def show(console: Console) -> None:
        console.print(f"[bold]{escape(str(output))}[/] ({bytes_text(nbytes)})")
        print_method(console, data["methods"][0])

    return Answer(data, show)
