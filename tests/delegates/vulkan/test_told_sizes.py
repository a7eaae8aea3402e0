"""Sizes that come from tensors a part of a program does not work on: it sees them for their sizes alone."""

import torch
from torch import nn

import etarena
from bench.vulkan_models import instructions_left
from etarena import vulkan

N = torch.export.Dim.DYNAMIC


class Resized(nn.Module):
    """Resized to the sizes of what another part made, and of an input; what has no shader is between the parts."""

    def forward(self, x: torch.Tensor, like: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Of any sizes."""
        fine = torch.asinh(x * 2)
        coarse = torch.asinh(nn.functional.avg_pool2d(fine, 2))
        resized = nn.functional.interpolate(coarse, size=fine.shape[2:], mode="bilinear", align_corners=False)
        other = nn.functional.interpolate(torch.tanh(coarse), size=like.shape[2:], mode="nearest")
        return torch.asinh(resized) + fine, torch.asinh(other), torch.full((like.shape[2],), 3.0) * 2


def test_resizing_to_the_size_of_another_tensor(device: vulkan.Device) -> None:
    model = Resized()
    shapes = {"x": {2: N, 3: N}, "like": {2: N, 3: N}}
    example = (torch.randn(1, 2, 10, 12), torch.randn(1, 1, 21, 23))
    partitioners = [etarena.VulkanPartitioner()]
    exported = etarena.export(model, example, dynamic_shapes=shapes, partitioners=partitioners)
    assert instructions_left(exported.buffer) == {"aten.asinh.out": 4}
    method = etarena.load(exported.buffer, etarena.Arena(poison=True), vulkan=device).method()
    for (h, w), (to_h, to_w) in [((10, 12), (21, 23)), ((7, 9), (3, 500)), ((33, 2), (1, 1))]:
        x, like = torch.randn(1, 2, h, w), torch.randn(1, 1, to_h, to_w)
        wanted = model(x, like)
        with etarena.record_copies() as copies:
            found = method.execute([x, like])
        for ours, theirs in zip(found, wanted, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        # The inputs and outputs that parts read and write; `like` is not looked into.
        assert [copy.nbytes for copy in copies] == [x.nbytes, wanted[0].nbytes, wanted[2].nbytes]
