"""ETensors as inputs of methods: read in place, and refused where the CPU could not read them."""

import mmap

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import etarena
from etarena import ETensor

from ..helpers.oracle import assert_same


class Affine(nn.Module):
    def forward(self, x):
        return x * 2 + 1


class Accumulate(nn.Module):
    def forward(self, total, x):
        total.add_(x)
        return total.sum()


@pytest.fixture(scope="module")
def exported():
    return etarena.export(Affine(), (torch.ones(3, 4),), dynamic_shapes=({0: Dim.DYNAMIC},))


@pytest.fixture
def method(exported):
    return etarena.load(exported.buffer, etarena.Arena(1 << 30)).method()


@pytest.fixture(scope="module")
def accumulate():
    exported = etarena.export(Accumulate(), (torch.zeros(4), torch.ones(4)))
    return etarena.load(exported.buffer, etarena.Arena(1 << 30)).method()


@pytest.mark.parametrize("rows", [1, 3, 0])
def test_an_etensor_is_read_in_place(method, rows: int) -> None:
    x = torch.randn(rows, 4)
    with etarena.zero_copy():
        (result,) = method.execute([ETensor(x)])
    assert_same(result, Affine()(x))
    assert method.last_run.copies == ()


def test_what_is_written_into_the_memory_is_seen(method) -> None:
    x = np.zeros((2, 4), dtype=np.float32)
    tensor = ETensor(x)
    for value in (1.0, 5.0):
        x[...] = value
        assert method.execute([tensor])[0].eq(2 * value + 1).all()
    assert tensor.n_exports == 0


def test_another_layout_costs_a_counted_copy(method) -> None:
    x = torch.randn(4, 5).t()
    (result,) = method.execute([ETensor(x)])
    assert_same(result, Affine()(x))
    assert [copy.nbytes for copy in method.last_run.copies] == [80]
    with pytest.raises(etarena.CopyRefusedError, match="'x' has strides"), etarena.zero_copy():
        method.execute([ETensor(x)])


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: ETensor(torch.ones(2, 4, dtype=torch.float64)), TypeError, "'x' has dtype torch.float64"),
        (lambda: ETensor(torch.ones(4)), ValueError, r"'x' has shape \(4,\) of rank 1"),
        (lambda: ETensor(torch.ones(2, 5)), ValueError, "'x'"),
    ],
)
def test_what_does_not_fit_is_named(method, make, error, text: str) -> None:
    with pytest.raises(error, match=text):
        method.execute([make()])
    assert method.execute([torch.ones(1, 4)])[0].eq(3).all()


def test_a_closed_tensor_is_named(method) -> None:
    tensor = ETensor(torch.ones(2, 4))
    tensor.close()
    with pytest.raises(etarena.DeviceError, match="input 'x': this ETensor is closed"):
        method.execute([tensor])


def test_memory_of_a_device_is_refused_and_never_read(method) -> None:
    # The handle is the address of a page that nobody may touch: reading it would end the process.
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=0)
    buffer = np.frombuffer(memoryview(page), dtype=np.uint8)
    address = buffer.__array_interface__["data"][0]
    for resource in (
        etarena.Resource.device_pointer(address, mmap.PAGESIZE),
        etarena.Resource.host(address, mmap.PAGESIZE),
    ):
        tensor = ETensor.from_resource(resource, "float32", (2, 4), "cuda")
        with pytest.raises(etarena.DeviceError, match=r"input 'x': .* cuda:0.*\.to\('cpu'\)"):
            method.execute([tensor])
    assert method.execute([torch.ones(1, 4)])[0].eq(3).all()


def test_a_method_writes_into_an_etensor(accumulate) -> None:
    total = np.ones(4, dtype=np.float32)
    (result,) = accumulate.execute([ETensor(total), ETensor(torch.full((4,), 2.0))])
    assert total.tolist() == [3.0] * 4
    assert result.item() == 12.0


def test_a_read_only_etensor_is_not_written(accumulate) -> None:
    total = np.ones(4, dtype=np.float32)
    total.flags.writeable = False
    with pytest.raises(etarena.InputError, match="'total' is read-only"):
        accumulate.execute([ETensor(total), torch.ones(4)])
    assert total.tolist() == [1.0] * 4


def test_memory_shared_with_a_written_input_is_refused(accumulate) -> None:
    total = torch.ones(4)
    with pytest.raises(etarena.InputError, match="shares memory"):
        accumulate.execute([total, ETensor(total)])


def test_a_bfloat16_tensor_goes_in_though_numpy_has_none() -> None:
    exported = etarena.export(Affine(), (torch.ones(4, dtype=torch.bfloat16),))
    method = etarena.load(exported.buffer, etarena.Arena(1 << 30)).method()
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.bfloat16)
    assert method.execute([ETensor(x)])[0].tolist() == [3.0, 5.0, 7.0, 9.0]
    strided = torch.arange(8.0).bfloat16()[::2]
    assert method.execute([ETensor(strided)])[0].tolist() == [1.0, 5.0, 9.0, 13.0]


def test_an_output_that_is_an_input_is_no_problem(method) -> None:
    x = torch.ones(2, 4)
    (result,) = method.execute([ETensor(x)], outputs=[x])
    assert result is x
    assert x.eq(3).all()
