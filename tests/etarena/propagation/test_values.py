"""What `propagate` says of each value, beside a run of eager PyTorch under the same recorder and hand calculation."""

from typing import Any

import pytest
import sympy
import torch
from torch import Tensor, nn

import etarena
from etarena.propagation.recorder import Recorder


class Layers(nn.Module):
    """Convolution, norm, attention, views, a write in place and a change of dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, image: Tensor) -> tuple[Tensor, dict[str, Tensor], None]:
        rows = self.conv(image).flatten(2).transpose(1, 2)
        rows = self.norm(rows).relu_()
        attended, _ = self.attention(rows, rows, rows, need_weights=True)
        self.seen += 1
        halves = attended.half().chunk(2, dim=1)
        return halves[0] + halves[1].to(torch.float32), {"top": attended.topk(2).values}, None


def facts(value: Any) -> tuple[Any, ...]:
    what = (value.op, value.shape, value.dtype, str(value.device), value.stride)
    return *what, value.nbytes, value.first, value.last


def results(found: etarena.Propagation) -> list[Any]:
    return [value for value in found.values if value.kind == "result"]


def run_for_real(module: nn.Module, *inputs: Tensor) -> list[tuple[Any, ...]]:
    recorder = Recorder()
    for tensor in (*inputs, *module.state_dict(keep_vars=True).values()):
        recorder.add("before", "input", tensor, 0)
    with torch.no_grad(), recorder:
        kept = module(*inputs)
    found = [facts(value) for value in recorder.finish() if value.kind == "result"]
    del kept
    return found


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_every_value_is_as_in_a_run(layout: torch.memory_format) -> None:
    module = Layers().eval()
    image = torch.randn(2, 3, 6, 4).contiguous(memory_format=layout)
    found = etarena.propagate(module, (image,))
    assert list(map(facts, results(found))) == run_for_real(module, image)
    assert not found.materialised


def test_autocast_around_the_call_applies() -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    rows = torch.randn(3, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = etarena.propagate(module, (rows,))
        shown = run_for_real(module, rows)
    assert list(map(facts, results(found))) == shown
    assert results(found)[-1].dtype == "bfloat16"


def test_the_model_is_untouched() -> None:
    module = Layers().eval()
    before = {name: (tensor, tensor.clone()) for name, tensor in module.state_dict(keep_vars=True).items()}
    etarena.propagate(module, (torch.randn(1, 3, 4, 4),), device_map={"": "cpu", "norm": "cuda:1"})
    after = module.state_dict(keep_vars=True)
    assert all(after[name] is tensor and torch.equal(tensor, copy) for name, (tensor, copy) in before.items())


def test_what_the_code_assigns_to_the_model_is_gone() -> None:
    class Remembers(nn.Module):
        last: Tensor | None = None

        def forward(self, rows: Tensor) -> Tensor:
            self.last = rows * 2
            return self.last + 1

    module = Remembers()
    found = etarena.propagate(module, (torch.ones(3),))
    assert module.last is None
    assert "last" not in vars(module)
    assert found.values[1].last == 2  # held by the model to the end


class Chain(nn.Module):
    """Three steps whose lifetimes can be counted by hand."""

    def forward(self, rows: Tensor) -> Tensor:
        wide = torch.cat([rows, rows], 1)  # 0: 2n
        view = wide.view(-1)  # 1: shares it
        double = view * 2  # 2: 2n
        del wide, view
        return double.sum()  # 3: one number; what was concatenated is gone


def test_lifetimes_and_views_by_hand() -> None:
    found = etarena.propagate(Chain(), (torch.zeros(5, 4),))
    table = {value.name: value for value in found.values}
    assert [(one.first, one.last, one.nbytes) for one in (table["cat"], table["mul"], table["sum"])] == [
        (0, 3, 160),
        (2, 4, 160),
        (3, 4, 4),
    ]
    assert table["view"].alias_of == "cat"
    assert table["view"].nbytes == 0
    assert found.timeline()["cpu"] == [160, 160, 320, 164]
    memory = found.peak()["cpu"]
    assert (memory.results, memory.at, memory.inputs, memory.parameters) == (320, 2, 80, 0)


def test_sizes_that_vary() -> None:
    rows, columns = torch.export.Dim("rows"), torch.export.Dim("columns")
    found = etarena.propagate(Chain(), (torch.zeros(5, 4),), dynamic_shapes={"rows": {0: rows, 1: columns}})
    assert set(found.symbols) == {"rows", "columns"}
    for shape in [(5, 4), (7, 9), (100, 3)]:
        fixed = etarena.propagate(Chain(), (torch.zeros(shape),))
        assert found.timeline(shapes=[shape]) == fixed.timeline()
        assert found.peak({"rows": shape[0], "columns": shape[1]}) == fixed.peak()
    n, m = (sympy.Symbol(name, integer=True) for name in ("rows", "columns"))
    assert found.expression("cpu").subs({n: 7, m: 9}) == 2 * 2 * 7 * 9 * 4


def test_resizing_with_sizes_that_vary() -> None:
    class Pyramid(nn.Module):
        def forward(self, image: Tensor) -> Tensor:
            small = nn.functional.max_pool2d(image, 2)
            return nn.functional.interpolate(small, size=image.shape[-2:], mode="bilinear") + image

    found = etarena.propagate(Pyramid(), (torch.zeros(1, 2, 8, 12),), dynamic_shapes=({2: "h", 3: "w"},))
    assert "aten.upsample_bilinear2d.default" in found.operators
    for shape in [(1, 2, 8, 12), (1, 2, 31, 20)]:
        fixed = etarena.propagate(Pyramid(), (torch.zeros(shape),))
        assert found.peak(shapes=[shape])["cpu"].results == fixed.peak()["cpu"].results


def test_derived_and_equal_dimensions() -> None:
    class Join(nn.Module):
        def forward(self, left: Tensor, right: Tensor) -> Tensor:
            return torch.cat([left, left]) + right

    half = torch.export.Dim("half")
    found = etarena.propagate(Join(), (torch.zeros(3, 2), torch.zeros(6, 2)), dynamic_shapes=({0: half}, {0: 2 * half}))
    assert found.peak({"half": 10})["cpu"].results == 2 * (20 * 2 * 4)
    with pytest.raises(etarena.ShapeError, match="must be 20"):
        found.peak(shapes=[(10, 2), (21, 2)])


@pytest.mark.parametrize("rows", [3, 2**40])
def test_derived_dimensions_of_any_size(rows: int) -> None:
    n = torch.export.Dim("n")
    given = torch.zeros(rows, dtype=torch.uint8, device="meta")
    found = etarena.propagate(nn.ReLU(), (given,), dynamic_shapes=({0: n - 100},))
    assert found.symbols["n"].example == rows + 100
    assert found.peak({"n": 1100})["cpu"].results == 1000
    with pytest.raises(etarena.InputError, match=r"is 3 in the example, which is not 2\*n for any size"):
        etarena.propagate(nn.ReLU(), (torch.zeros(3),), dynamic_shapes=({0: 2 * n},))


def test_sizes_that_data_tells() -> None:
    class Chosen(nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            return rows[rows[:, 0] > 0] * 2

    found = etarena.propagate(Chosen(), (torch.randn(8, 3),))
    (told,) = found.symbols
    assert found.symbols[told].example is None
    # The mask, then the kept rows twice.
    assert found.timeline({told: 5})["cpu"][-1] == 2 * 5 * 3 * 4
    with pytest.raises(etarena.InputError, match=told):
        found.peak()


class Branches(nn.Module):
    def forward(self, rows: Tensor) -> Tensor:
        def large(one: Tensor) -> Tensor:
            return torch.cat([one, one, one]).sum(0, keepdim=True) + one

        chosen: Tensor = torch.cond(rows.sum() > 0, large, lambda one: one.clone(), (rows,))
        return chosen.cumsum(0)


def test_branches_of_control_flow() -> None:
    rows = torch.randn(6, 2)
    found = etarena.propagate(Branches(), (rows,))
    names = [value.name for value in found.values]
    assert {"cond.true.cat", "cond.false.clone"} <= set(names)
    # Sum (4) and mask (1); the three copies, then their sum, then what is returned.
    assert found.peak()["cpu"].results == 1 + 3 * 48 + 8
    program = torch.export.export(Branches(), (rows,), dynamic_shapes={"rows": {0: torch.export.Dim("n")}})
    told = etarena.propagate(program)
    (symbol,) = told.symbols
    assert told.peak({symbol: 6})["cpu"].results == 1 + 3 * 48 + 8


def test_a_program_gives_what_its_nodes_say() -> None:
    module = Layers().eval()
    program = torch.export.export(module, (torch.randn(2, 3, 6, 4),))
    found = {value.name: value for value in etarena.propagate(program).values}
    compared = 0
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function" and isinstance(value, Tensor) and node.name in found:
            told = found[node.name]
            assert (told.shape, told.dtype) == (tuple(value.shape), str(value.dtype).removeprefix("torch."))
            compared += 1
    assert compared > 5


def test_what_the_code_holds_elsewhere_is_a_constant() -> None:
    table = torch.ones(4)

    class Uses(nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            return rows * table + table.view(2, 2).sum()

    found = etarena.propagate(Uses(), (torch.ones(3, 4),))
    held = [value for value in found.values if value.kind == "constant"]
    assert [(value.nbytes, value.last) for value in held] == [(16, len(found.operators))]
    assert found.peak()["cpu"].parameters == 16


def test_json_and_text() -> None:
    import json

    found = etarena.propagate(Chain(), (torch.zeros(5, 4),), dynamic_shapes=({0: "n"},))
    data = json.loads(found.to_json())
    assert data["values"][1]["name"] == "cat"
    assert data["values"][1]["shape"] == ["n", 8]
    assert data["symbols"][0]["name"] == "n"
    assert "cat" in str(found)
