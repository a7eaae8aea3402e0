"""Programs whose inputs and outputs are Vulkan buffers: the CPU's operators get counted copies through the queue."""

import gc

import pytest
import torch
from torch.export import Dim

import etarena
from etarena import vulkan


@pytest.mark.parametrize("host_visible", [True, False])
def test_a_model_between_vulkan_buffers(device, host_visible):
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return (x * y).relu(), x.sum(0)

    exported = etarena.export(
        Model().eval(),
        (torch.randn(3, 4), torch.randn(3, 4)),
        dynamic_shapes=({0: Dim("n")}, {0: Dim("n")}),
        input_devices={"x": "vulkan", "y": "vulkan"},
        output_devices=["vulkan", None],
    )
    etarena.register_device_allocator(vulkan.VulkanAllocator(device, host_visible=host_visible))
    try:
        method = etarena.load(exported.buffer, arena=etarena.Arena()).method("forward")
        for rows in (3, 1, 200, 2):
            x, y = torch.randn(rows, 4), torch.randn(rows, 4)
            inputs = [etarena.ETensor(value).to("vulkan") for value in (x, y)]
            with etarena.zero_copy(), pytest.raises(etarena.CopyRefusedError, match="goes from vulkan:0 to cpu"):
                method.execute(inputs)
            product, total = method.execute(inputs)
            assert product.resource.kind is etarena.ResourceKind.VK_BUFFER
            torch.testing.assert_close(product.cpu().torch(), (x * y).relu())
            torch.testing.assert_close(total, x.sum(0))
            assert [copy.nbytes for copy in method.last_run.copies] == [rows * 16] * 3
        method.trim()
        del method, inputs, product
        gc.collect()
    finally:
        etarena.unregister_device_allocator("vulkan")
