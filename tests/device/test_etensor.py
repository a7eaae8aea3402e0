"""ETensors: what they say about themselves, how long they live, and what they refuse."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import etarena
from etarena import Device, DeviceError, ETensor, InputError, InputTypeError, SizeOverflowError


def test_it_describes_what_it_was_made_from() -> None:
    source = torch.arange(24.0).reshape(2, 3, 4).permute(0, 2, 1)
    tensor = ETensor(source)
    assert tensor.shape == (2, 4, 3)
    assert tensor.strides == (12, 1, 4)
    assert tensor.dim_order == source.dim_order() == (0, 2, 1)
    assert (tensor.dtype, tensor.dtype_code, tensor.itemsize) == ("float32", 6, 4)
    assert (tensor.ndim, tensor.numel, tensor.nbytes) == (3, 24, 96)
    assert tensor.device == Device("cpu")
    assert tensor.address == source.data_ptr()
    assert not tensor.is_contiguous
    assert not tensor.readonly
    assert repr(tensor).startswith("<ETensor float32[2, 4, 3] on cpu at 0x")


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (1, 1, 1)])
def test_scalars_and_tensors_without_items(shape: tuple) -> None:
    for source in (torch.full(shape, 7.0), np.full(shape, 7.0, dtype=np.float32)):
        tensor = ETensor(source)
        assert tensor.shape == shape
        assert tensor.numpy().shape == shape
        assert tensor.torch().shape == shape
        assert tensor.is_contiguous
        assert (tensor.numpy() == 7).all()
        assert np.asarray(tensor.__array_interface__["shape"]).tolist() == list(shape)
        assert tensor.clone().shape == shape
        assert bytes(memoryview(tensor).tobytes()) == np.asarray(source).tobytes()


@st.composite
def views(draw) -> torch.Tensor:
    """Views of a dense tensor: permuted, with steps, narrowed."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    base = torch.arange(float(np.prod(shape))).reshape(shape)
    view = base.permute(draw(st.permutations(range(len(shape)))))
    for dim in range(view.dim()):
        start = draw(st.integers(0, view.shape[dim] - 1))
        step = draw(st.integers(1, 2))
        view = view[(slice(None),) * dim + (slice(start, None, step),)]
    return view


def steps(tensor: torch.Tensor) -> list[int]:
    """Strides that matter: DLPack gives dimensions of one item others."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


@given(views())
def test_every_view_goes_through_every_door_and_back(view: torch.Tensor) -> None:
    with etarena.zero_copy():
        for made in (ETensor(view), ETensor(view.numpy()), ETensor.from_dlpack(view), ETensor(ETensor(view))):
            assert made.address == view.data_ptr()
            for back in (made.torch(), torch.from_dlpack(made)):
                assert back.data_ptr() == view.data_ptr()
                assert steps(back) == steps(view)
                assert torch.equal(back, view)
            for array in (made.numpy(), np.from_dlpack(made), np.asarray(memoryview(made))):
                assert array.__array_interface__["data"][0] == view.data_ptr()
                assert (array == view.numpy()).all()


@given(views(), st.data())
def test_copies_between_layouts_are_what_torch_says(view: torch.Tensor, data) -> None:
    order = data.draw(st.permutations(range(view.dim())))
    out = ETensor.empty("float32", view.shape, dim_order=order)
    out.copy_(view)
    assert torch.equal(out.torch(), view)
    assert torch.equal(ETensor(view).clone().torch(), view)
    target = torch.zeros(2 * view.numel()).reshape(*view.shape, 2)[..., 1]
    ETensor(target).copy_(ETensor(view))
    assert torch.equal(target, view)


def test_a_copy_of_itself_through_another_layout() -> None:
    source = torch.arange(9.0).reshape(3, 3)
    expected = source.t().clone()
    with etarena.record_copies() as ledger:
        ETensor(source).copy_(source.t())
    assert torch.equal(source, expected)
    assert sum(entry.nbytes for entry in ledger) >= 2 * 36


def test_the_source_lives_as_long_as_the_tensor() -> None:
    source = np.arange(4.0)
    alive = weakref.ref(source)
    tensor = ETensor(source)
    del source
    gc.collect()
    assert alive() is not None
    assert tensor.numpy().tolist() == [0, 1, 2, 3]
    tensor.close()
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("export", [memoryview, ETensor.numpy, ETensor.torch, np.from_dlpack, ETensor.view])
def test_what_was_made_from_it_keeps_it_open(export) -> None:
    tensor = ETensor(torch.arange(4.0))
    exported = export(tensor)
    assert tensor.n_exports == 1
    with pytest.raises(BufferError, match=r"1 arrays, tensors or memoryviews still use .*float32 tensor of shape \(4,\)"):
        tensor.close()
    assert not tensor.is_closed
    del exported
    gc.collect()
    tensor.close()
    assert tensor.is_closed
    tensor.close()


def test_memory_outlives_the_tensor_if_somebody_uses_it() -> None:
    array = ETensor(torch.arange(4.0)).numpy()
    gc.collect()
    assert array.tolist() == [0, 1, 2, 3]


USES = {
    "memoryview": memoryview,
    "numpy": ETensor.numpy,
    "torch": ETensor.torch,
    "asarray": np.asarray,
    "from_dlpack": np.from_dlpack,
    "__dlpack__": lambda tensor: tensor.__dlpack__(),
    "__dlpack_device__": lambda tensor: tensor.__dlpack_device__(),
    "__array_interface__": lambda tensor: tensor.__array_interface__,
    "address": lambda tensor: tensor.address,
    "resource": lambda tensor: tensor.resource,
    "view": ETensor.view,
    "clone": ETensor.clone,
    "copy_": lambda tensor: tensor.copy_(torch.ones(2)),
    "copy from": lambda tensor: ETensor(torch.ones(2)).copy_(tensor),
    "map": lambda tensor: tensor.map(),
    "with": lambda tensor: tensor.__enter__(),
    "ETensor": ETensor,
}


@pytest.mark.parametrize("use", USES)
def test_a_closed_tensor_refuses_everything(use: str) -> None:
    with ETensor(torch.ones(2)) as tensor:
        pass
    assert repr(tensor) == "<ETensor closed>"
    with pytest.raises(DeviceError, match="closed"):
        USES[use](tensor)


def test_it_is_neither_pickled_nor_copied_by_chance() -> None:
    tensor = ETensor(torch.ones(2))
    for act, text in [
        (pickle.dumps, "cannot be pickled"),
        (copy.copy, "ambiguous"),
        (copy.deepcopy, "ambiguous"),
    ]:
        with pytest.raises(TypeError, match=text):
            act(tensor)
    with pytest.raises(TypeError, match="filled once"):
        tensor.__init__(torch.ones(3))  # type: ignore[misc]
    with pytest.raises(DeviceError, match="closed"):
        memoryview(ETensor.__new__(ETensor))


def test_read_only_memory_stays_read_only() -> None:
    tensor = ETensor(b"\1\2\3\4")
    assert tensor.readonly
    assert tensor.dtype == "uint8"
    assert not tensor.numpy().flags.writeable
    assert memoryview(tensor).readonly
    assert not np.from_dlpack(tensor).flags.writeable
    assert ETensor.from_dlpack(tensor).readonly
    assert tensor.view().readonly
    assert tensor.__array_interface__["data"][1] is True
    with pytest.raises(BufferError, match="read-only, which DLPack before 1.0 cannot say"):
        tensor.__dlpack__()
    with pytest.raises(InputError, match="read-only"):
        tensor.copy_(torch.ones(4, dtype=torch.uint8))
    with pytest.raises(InputError, match="read-only"):
        tensor.map("w")
    with tensor.map("r") as mapped:
        assert mapped.numpy().tolist() == [1, 2, 3, 4]


def test_views_read_the_bits_as_another_dtype() -> None:
    tensor = ETensor(torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16))
    assert tensor.view("uint16").numpy().tolist() == [[0x3F80, 0x4000]]
    assert tensor.view("uint8").shape == (1, 4)
    assert tensor.view("uint8").view(torch.bfloat16).torch().tolist() == [[1.0, 2.0]]
    with pytest.raises(InputError, match="cannot be read as items of 8 bytes"):
        tensor.view("int64")
    with pytest.raises(InputError, match="cannot be read as items of 1 bytes"):
        ETensor(torch.ones(3, 2).t()).view("uint8")


LAYOUTS = [
    (("float32", (-1,)), {}, InputError, "shape -1 of dimension 0 is negative"),
    (("float32", (2**31,)), {}, SizeOverflowError, "does not fit the 32 bits"),
    (("float32", (2**40, 0)), {}, SizeOverflowError, "does not fit"),
    (("float32", (2**30, 2**30, 2**30)), {}, SizeOverflowError, r"more than 2\*\*57 items"),
    (("float32", (2, 2**16, 2**16)), {}, SizeOverflowError, "stride 4294967296 of dimension 0"),
    (("float32", (2**30, 2)), {"dim_order": (1, 0)}, DeviceError, "past the last address|null"),
    (("float32", (1,) * 17), {}, InputError, "at most 16"),
    (("float32", (2.5,)), {}, InputTypeError, "sequence of numbers"),
    (("float32", "ab"), {}, InputTypeError, "sequence of numbers"),
    (("float32", None), {}, InputTypeError, "sequence of numbers"),
    (("float32", (True,)), {}, InputTypeError, "sequence of numbers"),
    (("float32", (2, 3)), {"strides": (1,)}, InputError, "1 strides for a shape of 2"),
    (("float32", (2, 3)), {"strides": (-1, 1)}, InputError, "negative"),
    (("float32", (2, 3)), {"strides": (3, 1), "dim_order": (0, 1)}, InputError, "not both"),
    (("float32", (2, 3)), {"dim_order": (0, 0)}, InputError, "no order of 2 dimensions"),
    (("float32", (2, 3)), {"dim_order": (0, 2)}, InputError, "no order of 2 dimensions"),
    (("float33", (2,)), {}, InputTypeError, "has no dtype 'float33'"),
    ((99, (2,)), {}, InputTypeError, "has no dtype 99"),
    ((None, (2,)), {}, InputTypeError, "has no dtype None"),
]


@pytest.mark.parametrize(("arguments", "options", "error", "text"), LAYOUTS)
def test_impossible_layouts_are_refused(arguments, options, error, text: str) -> None:
    with pytest.raises(error, match=text):
        ETensor.from_pointer(2**64 - 4096, *arguments, **options)


@pytest.mark.parametrize("address", [0, -1, 2**64, 4097, "0x1000", 1.5, None])
def test_impossible_addresses_are_refused(address) -> None:
    with pytest.raises(DeviceError):
        ETensor.from_pointer(address, "float32", (4,))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: object(), InputTypeError, "a object is no tensor"),
        (lambda: 3, InputTypeError, "a int is no tensor"),
        (lambda: np.array(["a"]), InputTypeError, "items '1w'"),
        (lambda: np.array([object()]), InputTypeError, "items 'O'"),
        (lambda: np.ones(4, ">f4"), InputTypeError, "items '>f'"),
        (lambda: np.ones(4)[::-1], InputError, "negative"),
        (lambda: np.zeros(4, [("a", "i1"), ("b", "f4")])["b"], InputError, "splits items"),
        (lambda: torch.ones(3, dtype=torch.complex64).conj(), InputError, "negated or conjugated"),
        (lambda: torch.eye(3).to_sparse(), InputTypeError, "sparse_coo"),
        (lambda: torch.ones(3, device="meta"), InputTypeError, "meta"),
        (lambda: np.ones((1,) * 17), InputError, "at most 16"),
    ],
)
def test_what_is_no_plain_tensor_is_refused(make, error, text: str) -> None:
    with pytest.raises(error, match=text):
        ETensor(make())


def test_a_storage_shorter_than_its_tensor_is_refused() -> None:
    tensor = torch.arange(8.0)
    tensor.untyped_storage().resize_(16)
    with pytest.raises(InputError, match="storage of 16 bytes is smaller"):
        ETensor(tensor)


def test_copies_need_the_same_shape_and_dtype() -> None:
    tensor = ETensor(torch.zeros(2, 3))
    with pytest.raises(InputError, match=r"shape \[3, 2\] cannot be copied"):
        tensor.copy_(torch.ones(3, 2))
    with pytest.raises(InputTypeError, match="convert it first"):
        tensor.copy_(torch.ones(2, 3, dtype=torch.float64))
    with pytest.raises(InputError, match="expanded"):
        ETensor(torch.zeros(1).expand(4)).copy_(torch.ones(4))
    with pytest.raises(etarena.CopyRefusedError), etarena.zero_copy():
        tensor.copy_(torch.ones(2, 3))
    assert tensor.numpy().sum() == 0
