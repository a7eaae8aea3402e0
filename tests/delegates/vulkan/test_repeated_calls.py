"""A call like the one before: its commands are submitted again without a look at more than addresses."""

from typing import Any

import pytest
import torch

import etarena
from etarena import vulkan
from etarena.delegates.vulkan import delegate as delegate_module

DYNAMIC = torch.export.Dim.DYNAMIC


class Shifted(torch.nn.Module):
    """One part for Vulkan."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) + x.mean(dim=1, keepdim=True)


@pytest.fixture(scope="module")
def file() -> bytes:
    shapes = ({0: DYNAMIC, 1: DYNAMIC},)
    given = (torch.randn(4, 6),)
    return etarena.export(Shifted(), given, dynamic_shapes=shapes, partitioners=[etarena.VulkanPartitioner()]).buffer


def right(method: Any, *shape: int) -> None:
    x = torch.randn(*shape)
    torch.testing.assert_close(method.execute([x])[0], Shifted()(x), rtol=1e-4, atol=1e-5)


def refuse(*_: object) -> None:
    raise AssertionError("the call is looked at")


def test_the_same_call_is_not_looked_at_again(
    device: vulkan.Device, file: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = etarena.load(file, etarena.Arena(), vulkan=device).method()
    right(method, 5, 7)
    monkeypatch.setattr(delegate_module, "ArenaRun", refuse)
    for _ in range(3):
        right(method, 5, 7)
        assert [copy.nbytes for copy in method.last_run.copies] == [140, 140]
    with pytest.raises(etarena.Error, match="the call is looked at"):
        method.execute([torch.randn(7, 5)])  # as many bytes
    monkeypatch.undo()
    for shape in [(7, 5), (5, 7), (5, 7), (35, 1), (35, 1)]:
        right(method, *shape)


def test_memory_that_was_given_back_is_looked_at(device: vulkan.Device, file: bytes) -> None:
    arena = etarena.Arena()
    method = etarena.load(file, arena, vulkan=device).method()
    for _ in range(2):
        right(method, 64, 64)
        right(method, 64, 64)
        arena.trim()


def test_methods_that_share_an_arena_keep_their_own_calls(device: vulkan.Device, file: bytes) -> None:
    arena = etarena.Arena()
    methods = [etarena.load(file, arena, vulkan=device).method() for _ in range(2)]
    for shape in [(9, 3), (9, 3), (3, 9), (3, 9)]:
        for method in methods:
            right(method, *shape)


def test_a_repeated_call_that_fails_can_be_made_again(file: bytes) -> None:
    device = vulkan.Device.create()
    method = etarena.load(file, etarena.Arena(), vulkan=device).method()
    right(method, 4, 4)
    right(method, 4, 4)
    device.core.inject("vkQueueSubmit", -1)  # VK_ERROR_OUT_OF_HOST_MEMORY
    with pytest.raises(etarena.Error, match="OUT_OF_HOST_MEMORY"):
        method.execute([torch.randn(4, 4)])
    right(method, 4, 4)
    right(method, 4, 4)
