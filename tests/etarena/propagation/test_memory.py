"""No tensor is allocated, also for models that would not fit."""

import resource

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import etarena

BOX = 8  # bytes in which torch hands a single Python number to an operator that takes only tensors


def test_no_tensor_is_allocated() -> None:
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Softmax(1)).eval()
    image = torch.randn(1, 3, 64, 64)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        etarena.propagate(module, (image,))
    events = watched.profiler.kineto_results.events()
    assert not [event.nbytes() for event in events if event.name() == "[memory]" and abs(event.nbytes()) != BOX]
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched, torch.no_grad():
        module(image)  # the same watch sees a run
    events = watched.profiler.kineto_results.events()
    assert max(event.nbytes() for event in events if event.name() == "[memory]") >= 8 * 62 * 62 * 4


def test_a_model_larger_than_any_machine() -> None:
    with torch.device("meta"):
        module = nn.Sequential(*(nn.Linear(1 << 20, 1 << 20) for _ in range(4)))
        rows = torch.empty(1 << 16, 1 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = etarena.propagate(module, (rows,), device_map={"": "cuda:0", "3": "vulkan:1"})
    memory = found.peak()
    assert memory["cuda:0"].parameters == 3 * 4 * (2**40 + 2**20)
    assert memory["vulkan:1"].parameters == 4 * (2**40 + 2**20)
    assert memory["vulkan:1"].results == 2 * 2**36 * 4
    assert [(copy.nbytes, copy.before) for copy in found.copies] == [(2**38, "the model"), (2**38, "3")]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KiB
