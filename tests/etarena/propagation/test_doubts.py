"""Operators without a meta kernel, with one that raises, and with one that lies."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import etarena

SEEN: list[tuple[Any, ...]] = []


@pytest.fixture(scope="module", autouse=True)
def operators() -> Iterator[None]:
    with torch.library._scoped_library("propagation_tests", "DEF") as library:
        library.define("pick(Tensor table, Tensor rows) -> Tensor[]")
        library.impl("pick", pick, "CPU")
        for name in ("raising", "lying", "plain"):
            library.define(f"{name}(Tensor x) -> Tensor")
            library.impl(name, lambda x: x.t().contiguous(), "CPU")
        library.define("note(Tensor x) -> ()")
        library.impl("note", lambda x: None, "CPU")
        library.define("never(Tensor x) -> Tensor")
        torch.library.register_fake("propagation_tests::lying", torch.empty_like, lib=library)
        torch.library.register_fake("propagation_tests::raising", raise_key_error, lib=library)
        yield


def pick(table: Tensor, rows: Tensor) -> list[Tensor]:
    SEEN.append((table.clone(), rows.clone()))
    return [table[rows].repeat(2, 1), table.sum(1)]


def raise_key_error(x: Tensor) -> Tensor:
    raise KeyError("forgotten")


class Calls(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.operator = getattr(torch.ops.propagation_tests, name)

    def forward(self, *inputs: Tensor) -> Any:
        return self.operator(*inputs)


def test_without_a_meta_kernel_it_runs_once_on_small_tensors() -> None:
    SEEN.clear()
    inputs = (torch.empty(6, 8, device="meta"), torch.empty(3, dtype=torch.long, device="meta"))
    found = etarena.propagate(Calls("pick"), inputs)
    shapes = [(value.shape, value.dtype) for value in found.values if value.kind == "result"]
    assert shapes == [((6, 8), "float32"), ((6,), "float32")]
    (entry,) = found.materialised
    assert (entry.op, entry.reason) == ("propagation_tests.pick.default", "no meta kernel")
    assert entry.nbytes == 6 * 8 * 4 + 3 * 8 + 6 * 8 * 4 + 6 * 4
    ((table, rows),) = SEEN
    assert rows.min() >= 0
    assert rows.max() < 6
    etarena.propagate(Calls("pick"), inputs, seed=0)
    etarena.propagate(Calls("pick"), inputs, seed=1)
    assert torch.equal(SEEN[1][0], table)
    assert not torch.equal(SEEN[2][0], table)


def test_the_same_call_again_runs_nothing() -> None:
    class Twice(nn.Module):
        def forward(self, table: Tensor, rows: Tensor) -> Tensor:
            pick_rows = torch.ops.propagation_tests.pick
            return pick_rows(table, rows)[0] + pick_rows(table, rows)[0]

    SEEN.clear()
    found = etarena.propagate(Twice(), (torch.randn(6, 8), torch.tensor([0, 1, 2])))
    assert (len(SEEN), len(found.materialised)) == (1, 1)
    assert [value.shape for value in found.values if value.op == "aten.add.Tensor"] == [(6, 8)]


def test_its_sizes_follow_those_that_vary() -> None:
    inputs = (torch.randn(6, 8), torch.tensor([0, 1, 2]))
    found = etarena.propagate(Calls("pick"), inputs, dynamic_shapes=(({0: "n"}, {0: "m"}),))
    shapes = [str(value.shape) for value in found.values if value.kind == "result"]
    assert shapes == ["(2*m, 8)", "(n,)"]


def test_global_random_state_is_left_alone() -> None:
    state = torch.random.get_rng_state()
    etarena.propagate(Calls("plain"), (torch.randn(2, 3),), check=True)
    assert not torch.equal(state, torch.random.get_rng_state())  # the input itself was drawn
    state = torch.random.get_rng_state()
    etarena.propagate(Calls("plain"), (torch.ones(2, 3),), check=True)
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_meta_kernel_that_raises_is_reported() -> None:
    found = etarena.propagate(Calls("raising"), (torch.randn(2, 3),))
    assert [value.shape for value in found.values if value.kind == "result"] == [(3, 2)]
    assert found.materialised[0].reason == "its meta kernel raises KeyError: 'forgotten'"


def test_a_meta_kernel_that_lies_is_found_by_a_real_run() -> None:
    rows = torch.randn(2, 3)
    assert etarena.propagate(Calls("lying"), (rows,)).values[-1].shape == (2, 3)  # believed
    words = r"propagation_tests.lying.default.*says float32\[2, 3\].*gives float32\[3, 2\]"
    with pytest.raises(etarena.PropagationError, match=words):
        etarena.propagate(Calls("lying"), (rows,), check=True)
    with pytest.raises(etarena.PropagationError, match="lying"):
        etarena.propagate(Calls("lying"), (rows,), check=True, dynamic_shapes=(({0: "n"},),))


def test_true_meta_kernels_pass_the_check() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1)).eval()
    found = etarena.propagate(module, (torch.randn(1, 3, 8, 8),), check=True)
    assert not found.unchecked


def test_operators_that_return_nothing() -> None:
    found = etarena.propagate(Calls("note"), (torch.randn(2),))
    assert found.operators == ("propagation_tests.note.default",)
    assert all(value.kind == "input" for value in found.values)


def test_neither_kernel_names_the_operator() -> None:
    with pytest.raises(etarena.PropagationError, match=r"propagation_tests.never.default.*no meta kernel.*real run"):
        etarena.propagate(Calls("never"), (torch.randn(2),))


def test_too_large_to_run_says_so() -> None:
    with pytest.raises(etarena.PropagationError, match=r"plain.*no meta kernel.*bytes"):
        etarena.propagate(Calls("plain"), (torch.empty(1 << 20, 1 << 10, device="meta"),))
