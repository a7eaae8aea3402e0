"""`explain`: what an export makes of a model, or everything that stands in its way."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from executorch.exir.backend.partitioner import Partitioner
from torch.export import ExportedProgram

from .allocator.errors import ExportError
from .allocator.plan import Method
from .capture import Capture
from .dependence import dynamic_values, origins, shared_memory, stages
from .description import describe_method
from .explanation_text import explanation_text
from .exporter import ExportedModel, captured, checked_methods, checked_partitioners, lowered
from .kernels import WAY_OUT
from .quiet import quiet
from .survey import Reasons, Site, Taken, heard_reasons, survey, taken, traceback_line

__all__ = ["Explanation", "Refusal", "explain"]

PRIMITIVE = "executorch_prim::"
JUMPS = {"jump_false", "move", "free"}
# What torch says of a model that it cannot trace, and the way out where that is not in what it says.
WAYS_OUT = {
    "data-dependent expression": (
        "Python decides by the model's data there: choose with torch.cond or torch.where, or promise what holds with "
        "torch._check"
    ),
    "fake impl": "Give the operator a fake kernel with torch.library.register_fake",
    "native_batch_norm": "Call model.eval() before the export",
}


@dataclass(frozen=True)
class Refusal:
    """One thing that keeps a model from being exported.

    Parameters
    ----------
    method : str
        Name of the method; "" if it concerns all.
    operator, node : str
        The operator and its graph node; "" if the failure names none.
    source : str
        File, line and text of the model's code; "" if unknown.
    reason : str
        What is wrong.
    way_out : str
        What to do about it; "" where the reason says it.
    """

    method: str
    operator: str
    node: str
    source: str
    reason: str
    way_out: str = ""


@dataclass(frozen=True)
class Explanation:
    """What `explain` found out; ``str()`` of it is for people, `to_dict` for programs.

    Parameters
    ----------
    exported : ExportedModel or None
        The finished program; None if the export is refused.
    methods : list of dict
        What there is to say about each method of a finished program.
    refusals : list of Refusal
        What is in the way, in the order of the model's code as far as that is known.
    """

    exported: ExportedModel | None
    methods: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data that ``json`` can write."""
        refused = [asdict(refusal) for refusal in self.refusals]
        return {"exported": self.exported is not None, "methods": self.methods, "refused": refused}

    def __str__(self) -> str:
        return explanation_text(self.to_dict())


def explain(
    model: Any,
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    partitioners: Sequence[Partitioner] | Mapping[str, Sequence[Partitioner]] = (),
    strict: bool = False,
) -> Explanation:
    """Export a model and say what came of it: what varies, what is planned when, what runs where, what is refused.

    Parameters
    ----------
    model, args, kwargs, dynamic_shapes, partitioners, strict
        As for `export`.

    Returns
    -------
    Explanation
        Of a refused model too: all operators without a kernel are listed, not only the first.

    Raises
    ------
    InputError, InputTypeError
        An argument of this function has a value or type that makes no sense.
    """
    methods = checked_methods(model, args, kwargs, dynamic_shapes)
    chosen = checked_partitioners(partitioners, methods)
    captures: dict[str, Capture] = {}
    refusals: list[Refusal] = []
    with quiet():
        for name, parts in methods.items():
            try:
                captures[name] = captured(name, *parts, strict=strict)
            except ExportError as error:
                refusals.append(Refusal(name, "", "", traceback_line(error), str(error), _way_out(str(error))))
        exported: ExportedModel | None = None
        sites: dict[str, list[Site]] = {}
        went: dict[str, list[Taken]] = {}
        if captures:
            exported, sites, went, refused = _lowered(captures, chosen)
            refusals += refused
    if exported is None or refusals:
        return Explanation(None, [], refusals)
    described = [
        explained_method(exported.plan(name), sites[name], went[name], bool(chosen[name]))
        for name in exported.method_names
    ]
    return Explanation(exported, described, [])


def _lowered(
    captures: Mapping[str, Capture], partitioners: Mapping[str, list[Partitioner]]
) -> tuple[ExportedModel | None, dict[str, list[Site]], dict[str, list[Taken]], list[Refusal]]:
    sites: dict[str, list[Site]] = {}
    went: dict[str, list[Taken]] = {}
    with heard_reasons() as heard:

        def watch(name: str, program: ExportedProgram) -> None:
            names = {str(symbol): text for symbol, text in captures[name].names.items()}
            sites[name] = survey(name, program, partitioners[name], heard, names)
            went[name] = taken(name, program, partitioners[name])

        try:
            return lowered(captures, partitioners, watch), sites, went, []
        except ExportError as error:
            known = sites or _before_lowering(captures, heard)
            return None, sites, went, refusals_of(error, known)


def _before_lowering(captures: Mapping[str, Capture], heard: Reasons) -> dict[str, list[Site]]:
    return {name: survey(name, capture.program, (), heard, {}) for name, capture in captures.items()}


def refusals_of(error: ExportError, sites: Mapping[str, Sequence[Site]]) -> list[Refusal]:
    """What a failed lowering is about: every operator without a kernel, and the failure itself if it is another."""
    text = str(error)
    refusals = [
        Refusal(
            name, site.operator, site.node, site.source, f"ExecuTorch has no CPU kernel for {site.missing}", WAY_OUT
        )
        for name, listed in sites.items()
        for site in listed
        if site.missing
    ]
    if refusals and ("no CPU kernel for" in text or "out variant" in text):
        return refusals
    said = []
    for line in text.splitlines() if text.startswith("only the operator itself") else [text]:
        name, site = _named(line, sites)
        source = site.source or traceback_line(error)
        said.append(Refusal(name, site.operator, site.node, source, line, _way_out(line)))
    return [*said, *refusals]


def _way_out(text: str) -> str:
    return next((way for said, way in WAYS_OUT.items() if said in text), "")


def _named(text: str, sites: Mapping[str, Sequence[Site]]) -> tuple[str, Site]:
    """The operator call whose node a message quotes."""
    quoted = {*re.findall(r"'(\w+)'", text), *re.findall(r"%(\w+)", text)}
    for name, listed in sites.items():
        for site in listed:
            if site.node in quoted:
                return name, site
    return next(iter(sites)) if len(sites) == 1 else "", Site("", "", "")


def explained_method(
    method: Method, sites: Sequence[Site], went: Sequence[Taken], is_partitioned: bool
) -> dict[str, Any]:
    """Everything there is to say about one method of a finished program, as plain data."""
    called = {delegate.instruction for delegate in method.delegates}
    labels = [label for at, label in enumerate(method.labels) if at not in called and label not in JUMPS]
    counts = Counter(label for label in labels if not label.startswith(PRIMITIVE))
    operators = {label.split(".")[0] for label in counts}
    return {
        **describe_method(method),
        "known_from": origins(method),
        "dynamic": dynamic_values(method),
        "stages": _with_sources(stages(method), sites),
        "delegate_calls": [
            {"backend": delegate.id, "instruction": delegate.instruction} for delegate in method.delegates
        ],
        "delegate_operators": {
            backend: _most_first(Counter(one.operator for one in went if one.backend == backend))
            for backend in dict.fromkeys(delegate.id for delegate in method.delegates)
        },
        "passed_on": [asdict(one) | {"reasons": list(one.reasons)} for one in went if one.reasons],
        "cpu_operators": _most_first(counts),
        "size_arithmetic": sum(label.startswith(PRIMITIVE) for label in labels),
        "not_taken": [_left(site) for site in sites if is_partitioned and site.operator in operators],
        "shared_memory": shared_memory(method),
    }


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _left(site: Site) -> dict[str, Any]:
    return {"operator": site.operator, "node": site.node, "source": site.source, "reasons": list(site.reasons)}


def _with_sources(found: list[dict[str, Any]], sites: Sequence[Site]) -> list[dict[str, Any]]:
    """The stages with the model's line that tells each, where operators and stages can be told apart."""
    for operator in {stage["operator"] for stage in found[1:]}:
        here = [stage for stage in found[1:] if stage["operator"] == operator]
        lines = [site.source for site in sites if site.tells and site.operator == operator]
        if len(lines) == len(here) or len(set(lines)) == 1:
            for stage, line in zip(here, lines if len(lines) == len(here) else lines[:1] * len(here), strict=True):
                stage["source"] = line
    for stage in found:
        stage.setdefault("source", "")
    return found
