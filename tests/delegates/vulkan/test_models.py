"""Whole models on Vulkan alone and mixed with XNNPACK and the CPU; half precision; sizes that depend on data."""

from collections import Counter

import pytest
import torch
from torch import nn

import etarena
from bench.coverage import LARGEST_ERROR, error_of
from bench.models import MODELS
from bench.vulkan_models import instructions_left, lowered
from etarena import vulkan

N = torch.export.Dim.DYNAMIC


BOTH = [("bert", "mixed"), ("espcn", "mixed"), ("unet", "alone"), ("unet", "mixed")]


@pytest.mark.parametrize(("name", "way"), BOTH)
def test_a_model_equals_eager_growing_and_shrinking(device: vulkan.Device, name: str, way: str) -> None:
    model = MODELS[name].make()
    exported = lowered(model, way, name)
    delegates = Counter(delegate.id for delegate in exported.plan().delegates)
    left = instructions_left(exported.buffer)
    assert delegates["EtarenaVulkan"] >= 1
    assert (delegates["XnnpackBackend"] >= 1, bool(left)) == ((way == "mixed"),) * 2
    method = etarena.load(exported.buffer, etarena.Arena(poison=True), vulkan=device).method()
    for size in (model.sizes[0], model.sizes[3], model.sizes[1]):
        inputs = model.inputs(size)
        with torch.no_grad():
            wanted = model.module(*inputs)
        wanted = [wanted] if isinstance(wanted, torch.Tensor) else wanted
        for ours, theirs in zip(method.execute(list(inputs)), wanted, strict=True):
            assert error_of(ours, theirs) <= LARGEST_ERROR
        assert method.last_run.arena_bytes <= 1.05 * method.last_run.lower_bound_bytes


class Small(nn.Module):
    """Convolutions, a normalisation, attention weights and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, 2, 1)
        self.second = nn.Conv2d(8, 8, 3, 1, 1, groups=8)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of any picture."""
        x = torch.relu(self.second(torch.relu(self.first(x)))).flatten(2).transpose(1, 2)
        x = self.norm(x)
        return self.head(torch.softmax(x @ x.transpose(1, 2), -1) @ x).mean(1)


def run_small(device: vulkan.Device, dtype: torch.dtype, shapes: list[tuple[int, ...]]) -> float:
    """The largest error beside eager PyTorch in fp32 with the same weights."""
    torch.manual_seed(0)
    model = Small().eval().to(dtype)
    dynamic = ({0: N, 2: N, 3: N},)
    example = (torch.randn(2, 3, 16, 12).to(dtype),)
    partitioners = [etarena.VulkanPartitioner()]
    exported = etarena.export(model, example, dynamic_shapes=dynamic, partitioners=partitioners)
    assert not instructions_left(exported.buffer)
    method = etarena.load(exported.buffer, etarena.Arena(poison=True), vulkan=device).method()
    exact = Small().eval()
    exact.load_state_dict(model.float().state_dict())
    errors = []
    for shape in shapes:
        x = torch.randn(shape).to(dtype)
        with torch.no_grad():
            wanted = exact(x.float())
        (found,) = method.execute([x])
        assert found.dtype == dtype
        errors.append(error_of(found.float(), wanted))
    return max(errors)


def test_half_precision_is_close_to_single(device: vulkan.Device) -> None:
    assert run_small(device, torch.float16, [(1, 3, 8, 8), (3, 3, 21, 34), (2, 3, 5, 6)]) <= 1e-2


def test_a_batch_of_none(device: vulkan.Device) -> None:
    assert run_small(device, torch.float32, [(2, 3, 8, 9), (0, 3, 8, 9), (1, 3, 12, 8)]) <= LARGEST_ERROR


class Chosen(nn.Module):
    """Vulkan before and after rows are chosen on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(6, 8)
        self.after = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows whose first number is positive, and which those are."""
        rows = torch.tanh(self.before(x))
        places = torch.nonzero(rows[:, 0] > 0)[:, 0]
        return torch.softmax(self.after(rows.index_select(0, places)), -1) * 2, places


def test_sizes_that_depend_on_data_between_two_parts(device: vulkan.Device) -> None:
    torch.manual_seed(0)
    model = Chosen().eval()
    exported = etarena.export(
        model,
        (torch.randn(9, 6),),
        dynamic_shapes=({0: N},),
        partitioners=[etarena.VulkanPartitioner()],
    )
    assert [delegate.id for delegate in exported.plan().delegates].count("EtarenaVulkan") >= 2
    assert "aten.nonzero.out" in instructions_left(exported.buffer)
    method = etarena.load(exported.buffer, etarena.Arena(poison=True), vulkan=device).method()
    counts = set()
    for rows in (5, 200, 1, 0, 64):
        x = torch.randn(rows, 6)
        with torch.no_grad():
            wanted, places = model(x)
        found, found_places = method.execute([x])
        assert torch.equal(found_places, places)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        counts.add(len(places))
    assert len(counts) > 3
    assert 0 in counts
