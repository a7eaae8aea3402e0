"""Stock files with ExecuTorch's own device annotations: CUDA's memory simulated, the copies those of the wheel."""

import ctypes
import gc

import numpy
import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig
from torch.export import export

import etarena
from etarena.quiet import quiet
from tests.helpers.placed_backend import PlacedDelegate, PlacedPartitioner


class SimulatedCuda(etarena.DeviceAllocator):
    """Addresses of host memory that etarena is told not to touch: only the delegate and the copies do."""

    device_type = "cuda"
    device_count = 1

    def __init__(self):
        self.blocks = {}
        self.copied = []

    def capabilities(self, index):
        return etarena.Capabilities(alignment=256)

    def allocate(self, index, nbytes, alignment):
        block = numpy.full(nbytes + alignment, 0xAB, numpy.uint8)
        address = -(-block.ctypes.data // alignment) * alignment
        self.blocks[address] = block
        return etarena.Resource.device_pointer(address, nbytes)

    def deallocate(self, index, resource):
        del self.blocks[resource.handle]

    def copy_to_device(self, index, destination, offset, source):
        self.copied.append(("up", source.nbytes))
        data = bytes(source)
        ctypes.memmove(destination.handle + destination.offset + offset, data, len(data))

    def copy_to_host(self, index, destination, source, offset):
        self.copied.append(("down", destination.nbytes))
        nbytes = destination.nbytes
        destination.cast("B")[:] = ctypes.string_at(source.handle + source.offset + offset, nbytes)


class OnCuda(PlacedDelegate):
    devices = 1 << 1

    def array(self, tensor):
        resource = tensor.resource
        assert tensor.device == etarena.Device("cuda:0")
        raw = (ctypes.c_char * tensor.nbytes).from_address(resource.handle + resource.offset)
        return numpy.frombuffer(raw, numpy.float32).reshape(tensor.shape)


@pytest.fixture
def cuda():
    allocator = etarena.register_device_allocator(SimulatedCuda())
    etarena.register_delegate("PlacedBackend", OnCuda)
    yield allocator
    etarena.unregister_delegate("PlacedBackend")
    etarena.unregister_device_allocator(allocator)


class Mixed(torch.nn.Module):
    def forward(self, x, y):
        a = x * y
        return (a.relu() * a), a.sum()


class Product(torch.nn.Module):
    def forward(self, x, y):
        return x * y


def stock_method(module, *, on_device=False, aware=True, plan_ends=True):
    example = (torch.randn(3, 4), torch.randn(3, 4))
    with torch.no_grad(), quiet():
        lowered = to_edge_transform_and_lower(
            export(module.eval(), example), partitioner=[PlacedPartitioner("cuda:0", "aten.mul")]
        )
        program = lowered.to_executorch(
            ExecutorchBackendConfig(
                enable_non_cpu_memory_planning=aware,
                propagate_device_config=PropagateDeviceConfig(
                    skip_h2d_for_method_inputs=on_device, skip_d2h_for_method_outputs=on_device
                ),
                memory_planning_pass=MemoryPlanningPass(alloc_graph_input=plan_ends, alloc_graph_output=plan_ends),
            )
        )
    return etarena.load(program.buffer).method("forward")


def test_copies_of_the_file_go_through_the_registered_allocator(cuda):
    method = stock_method(Mixed())
    for _ in range(3):
        x, y = torch.randn(3, 4), torch.randn(3, 4)
        cuda.copied.clear()
        results = method.execute([x, y])
        for result, expected in zip(results, Mixed()(x, y), strict=True):
            torch.testing.assert_close(result, expected)
        assert ("up", 48) in cuda.copied
        assert ("down", 48) in cuda.copied


def test_inputs_and_outputs_on_the_device(cuda):
    method = stock_method(Product(), on_device=True, plan_ends=False)
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    on_device = [etarena.ETensor(value).to("cuda") for value in (x, y)]
    cuda.copied.clear()
    (result,) = method.execute(on_device)
    assert result.device == etarena.Device("cuda:0")
    assert cuda.copied == []
    torch.testing.assert_close(result.cpu().torch(), x * y)
    for wrong, error, text in [
        (x, etarena.InputTypeError, "is on cuda:0: pass an etarena.ETensor"),
        (etarena.ETensor(x), etarena.DeviceError, "is on cpu, the file wants it on cuda:0"),
        (etarena.ETensor(x.double()).to("cuda"), etarena.InputTypeError, "has dtype float64"),
        (etarena.ETensor(torch.randn(4, 4)).to("cuda"), etarena.ShapeError, "dimension 0 of input 0 is 4"),
    ]:
        with pytest.raises(error, match=text):
            method.execute([wrong, on_device[1]])
    torch.testing.assert_close(method.execute(on_device)[0].cpu().torch(), x * y)


def test_planned_inputs_on_the_device_are_refused_with_the_way_out(cuda):
    method = stock_method(Product(), on_device=True, plan_ends=True)
    on_device = [etarena.ETensor(torch.randn(3, 4)).to("cuda") for _ in range(2)]
    with pytest.raises(etarena.DeviceError, match="alloc_graph_input=False"):
        method.execute(on_device)


def test_without_planning_for_devices_a_tag_is_a_hint(cuda):
    method = stock_method(Mixed(), aware=False, plan_ends=False)
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    for result, expected in zip(method.execute([x, y]), Mixed()(x, y), strict=True):
        torch.testing.assert_close(result, expected)
    assert cuda.copied == []


def test_without_an_allocator_the_load_says_what_to_register():
    etarena.register_delegate("PlacedBackend", OnCuda)
    try:
        with pytest.raises(etarena.DeviceError, match="no allocator is registered for cuda"):
            stock_method(Mixed())
    finally:
        etarena.unregister_delegate("PlacedBackend")


def test_the_memory_goes_back_with_the_method(cuda):
    method = stock_method(Mixed())
    method.execute([torch.randn(3, 4), torch.randn(3, 4)])
    del method
    gc.collect()
    etarena.unregister_device_allocator(cuda)
    assert cuda.blocks == {}
    etarena.register_device_allocator(cuda)
