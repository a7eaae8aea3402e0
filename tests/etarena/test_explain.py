"""What `explain` says: sizes, stages, operators and reasons that were worked out by hand from each model's code."""

import inspect
import json

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from torch import nn

import etarena
from etarena.explanation import refusals_of
from etarena.survey import Site

ROWS = ({0: torch.export.Dim("rows")},)


def line_of(function, text):
    """``file:line: text`` of the one line of a function's source that contains `text`."""
    lines, first = inspect.getsourcelines(function)
    (found,) = [(first + at, line.strip()) for at, line in enumerate(lines) if text in line]
    return f"{inspect.getsourcefile(function)}:{found[0]}: {found[1]}"


class Chosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.refine = nn.Linear(4, 1), nn.Linear(4, 2)

    def forward(self, x):
        kept = torch.nonzero(self.score(x)[:, 0] > 0)[:, 0]
        return self.refine(x[kept])


class Unsupported(nn.Module):
    def forward(self, x):
        first = x.median()
        hidden = torch.rand_like(x)
        return torch.relu(hidden).median() + first


class Looped(nn.Module):
    def forward(self, x):
        def goes_on(step, _value):
            return step < 3

        def body(step, value):
            return step + 1, value * 2

        return torch._higher_order_ops.while_loop(goes_on, body, (torch.zeros((), dtype=torch.int64), x))[1]


class Branching(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x


class Partly(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(torch.erf(self.first(x)))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        self.total += x.sum(dim=0)
        return self.total * 1


def test_a_size_that_data_tells_between_two_linears():
    explanation = etarena.explain(Chosen(), (torch.randn(5, 4),), None, ROWS)
    (method,) = explanation.methods
    (told,) = [symbol["name"] for symbol in method["symbols"] if symbol["name"] != "rows"]
    assert method["known_from"]["rows"] == ["size 0 of input 'x'"]
    start, stop = method["stages"]
    assert start["known"] == ["rows"]
    assert (stop["known"], stop["when"], stop["operator"]) == ([told], "before", "aten::nonzero")
    assert method["known_from"][told] == [
        f"non-zero elements counted for aten::nonzero, at instruction {stop['instruction']}"
    ]
    assert explanation.exported.plan().labels[stop["instruction"]] == "aten::nonzero.out"
    assert stop["source"] == line_of(Chosen.forward, "nonzero")
    dynamic = {entry["value"]: entry for entry in method["dynamic"]}
    assert dynamic["x"]["shape"] == ["rows", "4"]
    assert {name for name, entry in dynamic.items() if entry["depends_on"] == [told]} == set(stop["planned"])
    assert [entry["shape"] for entry in dynamic.values() if entry["kind"] == "output"] == [[told, "2"]]
    assert method["cpu_operators"]["aten::addmm.out"] == 2
    assert method["not_taken"] == []


def test_the_text_names_what_the_data_has():
    explanation = etarena.explain(Chosen(), (torch.randn(5, 4),), None, ROWS)
    text = str(explanation)
    told = explanation.methods[0]["stages"][1]["known"][0]
    assert "\n    rows (0 to any): size 0 of input 'x'\n" in text
    assert f"aten::nonzero: known {told}; planned aten_nonzero_default" in text
    assert "aten::addmm.out x 2" in text
    assert text.endswith(f"outputs: [{told}, 2]")
    assert json.loads(json.dumps(explanation.to_dict()))["exported"] is True


def test_every_operator_without_a_kernel_is_listed_with_its_line():
    explanation = etarena.explain(Unsupported(), (torch.randn(3),))
    assert explanation.exported is None
    assert explanation.methods == []
    assert [(refusal.operator, refusal.source) for refusal in explanation.refusals] == [
        ("aten::median", line_of(Unsupported.forward, "x.median()")),
        ("aten::rand_like", line_of(Unsupported.forward, "rand_like")),
        ("aten::median", line_of(Unsupported.forward, "relu(hidden)")),
    ]
    assert len({refusal.node for refusal in explanation.refusals}) == 3
    text = str(explanation)
    assert text.startswith("cannot be exported: 3 reasons\n")
    assert text.count("no CPU kernel for aten::median.out") == 2
    assert text.count("way out: Write that part of the model with other operators") == 1


def test_a_while_loop_has_one_stage_and_its_body_is_counted():
    (method,) = etarena.explain(Looped(), (torch.randn(5, 4),), None, ROWS).methods
    assert len(method["stages"]) == 1
    assert {"aten::lt.Scalar_out": 1, "aten::add.out": 1, "aten::mul.out": 1}.items() <= method["cpu_operators"].items()
    assert not {"move", "jump_false"} & set(method["cpu_operators"])


def test_a_partitioner_says_what_it_left_and_why():
    explanation = etarena.explain(Partly(), (torch.randn(5, 4),), None, ROWS, partitioners=[XnnpackPartitioner()])
    (method,) = explanation.methods
    assert method["delegates"] == {"XnnpackBackend": 2}
    assert method["cpu_operators"] == {"aten::erf.out": 1}
    assert [call["instruction"] for call in method["delegate_calls"]] == [0, 2]
    (left,) = method["not_taken"]
    assert (left["operator"], left["reasons"]) == ("aten::erf", ["XnnpackPartitioner does not know this operator"])
    assert left["source"] == line_of(Partly.forward, "erf")


class Shaded(nn.Module):
    """Two linears for Vulkan, an operator that it does not know, one of a type that it does not know."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(torch.asinh(self.first(x)).sigmoid()), x.double() * 2


def test_vulkan_alone_says_what_it_took_and_why_it_left_the_rest():
    partitioners = [etarena.VulkanPartitioner()]
    explanation = etarena.explain(Shaded(), (torch.randn(5, 4),), None, ROWS, partitioners=partitioners)
    (method,) = explanation.methods
    assert method["delegates"] == {"EtarenaVulkan": 2}
    assert method["delegate_operators"] == {"EtarenaVulkan": {"aten::linear": 2, "aten::sigmoid": 1}}
    assert method["passed_on"] == []
    left = {entry["operator"]: entry for entry in method["not_taken"]}
    assert set(left) == {"aten::asinh", "aten::mul", "dim_order_ops::_to_dim_order_copy"}
    assert left["aten::asinh"]["reasons"] == ["VulkanPartitioner: there is no shader for aten.asinh.default"]
    assert left["aten::asinh"]["source"] == line_of(Shaded.forward, "asinh")
    assert left["aten::mul"]["reasons"] == ["VulkanPartitioner: shaders do not know torch.float64"]
    text = str(explanation)
    assert "\n    takes aten::linear x 2, aten::sigmoid x 1\n" in text
    assert "\n  not taken: aten::asinh: VulkanPartitioner: there is no shader for aten.asinh.default\n" in text


def test_vulkan_before_xnnpack_says_what_it_passes_on():
    partitioners = [etarena.VulkanPartitioner(skip=["aten.sigmoid"]), XnnpackPartitioner()]
    explanation = etarena.explain(Shaded(), (torch.randn(5, 4),), None, ROWS, partitioners=partitioners)
    (method,) = explanation.methods
    assert method["delegate_operators"] == {
        "EtarenaVulkan": {"aten::linear": 2},
        "XnnpackBackend": {"aten::sigmoid": 1},
    }
    reason = "VulkanPartitioner: the partitioner was told to leave it"
    assert method["passed_on"] == [{"backend": "XnnpackBackend", "operator": "aten::sigmoid", "reasons": [reason]}]
    assert f"\n  left to XnnpackBackend: aten::sigmoid: {reason}\n" in str(explanation)
    (asinh,) = [entry for entry in method["not_taken"] if entry["operator"] == "aten::asinh"]
    assert asinh["reasons"] == [
        "VulkanPartitioner: there is no shader for aten.asinh.default",
        "XnnpackPartitioner does not know this operator",
    ]
    assert json.loads(json.dumps(explanation.to_dict()))["methods"][0]["passed_on"] == method["passed_on"]


def test_what_the_partitioner_says_itself_uses_the_names_of_dims():
    class Sliced(nn.Module):
        def forward(self, x):
            return torch.sigmoid(x[:, :2])

    explanation = etarena.explain(Sliced(), (torch.randn(5, 4),), None, ROWS, partitioners=[XnnpackPartitioner()])
    reasons = [reason for left in explanation.methods[0]["not_taken"] for reason in left["reasons"]]
    assert any("dim: rows" in reason for reason in reasons)


def test_python_that_decides_by_data_is_refused_with_its_line():
    explanation = etarena.explain(Branching(), (torch.randn(5, 4),), None, ROWS)
    (refusal,) = explanation.refusals
    assert "" not in str(explanation).splitlines()
    assert refusal.source == line_of(Branching.forward, "if x.sum()")
    assert "torch.cond" in refusal.way_out


def test_every_method_is_explained_or_refused():
    explained = etarena.explain({"one": (Counter(), (torch.randn(3, 2),)), "two": (Branching(), (torch.randn(3),))})
    assert [refusal.method for refusal in explained.refusals] == ["two"]
    assert (explained.exported, explained.methods) == (None, [])
    both = {"bad": (Unsupported(), (torch.randn(3),)), "worse": (Branching(), (torch.randn(3),))}
    assert sorted({refusal.method for refusal in etarena.explain(both).refusals}) == ["bad", "worse"]


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(0, 4))

    def forward(self, x):
        return etarena.ops.append(self.cache, x, 0).sum(0)


def test_the_length_of_a_state_is_known_when_the_call_begins():
    (method,) = etarena.explain(Remembering(), (torch.randn(2, 4),), None, ROWS).methods
    assert len(method["stages"]) == 1
    (length,) = [symbol["name"] for symbol in method["symbols"] if symbol["name"] != "rows"]
    assert method["known_from"] == {
        "rows": ["size 0 of input 'x'"],
        length: ["size 0 of state 'cache'"],
    }
    assert set(method["stages"][0]["known"]) == {"rows", length}


def test_a_run_has_as_many_plans_as_there_are_stages():
    explanation = etarena.explain(Chosen(), (torch.randn(5, 4),), None, ROWS)
    method = etarena.load(explanation.exported.buffer).method()
    method(torch.randn(7, 4))
    assert method.last_run.stages == len(explanation.methods[0]["stages"])


def test_every_size_that_nothing_bounds_is_listed():
    refusals = refusals_of(
        etarena.ExportError(
            "only the operator itself knows size 0 of 'first' (mine::op), and nothing bounds it: say\n"
            "only the operator itself knows size 1 of 'second' (mine::op), and nothing bounds it: say"
        ),
        {
            "one": [Site("mine::op", "first", "a.py:1: x")],
            "two": [Site("aten::relu", "other", ""), Site("mine::op", "second", "b.py:2: y")],
        },
    )
    assert [(refusal.method, refusal.node, refusal.source) for refusal in refusals] == [
        ("one", "first", "a.py:1: x"),
        ("two", "second", "b.py:2: y"),
    ]


def test_state_is_named():
    explanation = etarena.explain(Counter(), (torch.randn(3, 2),), None, ROWS)
    assert [state["name"] for state in explanation.methods[0]["state"]] == ["total"]
    assert "\n  state: total [2]\n" in str(explanation)


@torch.library.custom_op("explain_test::some_rows", mutates_args=())
def some_rows(x: torch.Tensor) -> torch.Tensor:
    return x[x[:, 0] > 0]


@some_rows.register_fake
def _(x):
    return x.new_empty((torch.library.get_ctx().new_dynamic_size(), x.shape[1]))


def test_a_custom_operator_without_a_kernel_is_listed_at_each_call():
    class Twice(nn.Module):
        def forward(self, x):
            left = some_rows(x)
            return left.sum() + some_rows(x + 1).sum()

    refusals = etarena.explain(Twice(), (torch.randn(5, 4),), None, ROWS).refusals
    named = [refusal.source for refusal in refusals if refusal.operator == "explain_test::some_rows"]
    assert named == [line_of(Twice.forward, "left ="), line_of(Twice.forward, "return")]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sort(0)[0],
        lambda x: torch.empty_like(x).fill_(1) + x,
        lambda x: x.split(2, 1)[0] + x.cumsum(0)[:, :2],
        lambda x: x[: x.argmax().item() % 3],
        lambda x: torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v * 2, (x,)),
        lambda x: x.transpose(0, 1).reshape(-1).unique(),
    ],
)
def test_no_operator_of_an_exported_program_counts_as_missing(function):
    from etarena.exporter import captured, checked_methods, lowered
    from etarena.survey import survey

    class Applied(nn.Module):
        def forward(self, x):
            return function(x)

    sites = []
    (parts,) = checked_methods(Applied(), (torch.randn(5, 4),), None, ROWS).values()
    captures = {"forward": captured("forward", *parts, strict=False)}
    lowered(captures, {"forward": []}, lambda _name, program: sites.extend(survey("forward", program, (), {}, {})))
    assert sites
    assert [site for site in sites if site.missing] == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((7, ()), etarena.InputTypeError),
        (({},), etarena.InputError),
        ((Counter(), 3), etarena.InputTypeError),
        (({"forward": Counter()}, ()), etarena.InputError),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, error):
    with pytest.raises(error):
        etarena.explain(*arguments)


def test_partitioners_that_make_no_sense_are_refused():
    with pytest.raises(etarena.InputTypeError, match="call it to make one"):
        etarena.explain(Counter(), (torch.randn(3, 2),), partitioners=[XnnpackPartitioner])
