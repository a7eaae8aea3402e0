"""Every dtype that ExecuTorch names, through torch, NumPy and DLPack; where one lacks it, a clear refusal."""

import numpy as np
import pytest
import torch
from executorch.exir.scalar_type import ScalarType

from etarena import ETensor, InputTypeError
from etarena.device.dtypes import DTYPE_NAMES, ITEM_BYTES, RARE_ITEM_BYTES, RARE_NAMES, dtype_name, dtype_number

IN_TORCH = {name: getattr(torch, name) for name in (DTYPE_NAMES | RARE_NAMES).values() if hasattr(torch, name)}
THROUGH_DLPACK = [name for name in IN_TORCH if not name.startswith(("q", "bits"))]
IN_NUMPY = [name for name in THROUGH_DLPACK if name not in ("bfloat16", "complex32") and not name.startswith("float8")]


def test_the_tables_name_what_executorch_has() -> None:
    names = DTYPE_NAMES | RARE_NAMES
    assert {int(member) for member in ScalarType} <= set(names)
    assert set(names) == set(ITEM_BYTES | RARE_ITEM_BYTES)
    for code, name in names.items():
        assert dtype_number(name) == dtype_number(code) == code
        assert dtype_name(code) == name
        if name in IN_TORCH:
            assert dtype_number(IN_TORCH[name]) == code
            assert IN_TORCH[name].itemsize == (ITEM_BYTES | RARE_ITEM_BYTES)[code]


@pytest.mark.parametrize("name", THROUGH_DLPACK)
def test_torch_and_back(name: str) -> None:
    bits = torch.arange(32, dtype=torch.uint8)
    source = (bits % 2).bool() if name == "bool" else bits.view(IN_TORCH[name])
    tensor = ETensor(source)
    assert tensor.dtype == name
    back = tensor.torch()
    assert back.dtype == source.dtype
    assert back.data_ptr() == source.data_ptr()
    assert ETensor.from_dlpack(tensor).dtype == name


@pytest.mark.parametrize("name", IN_NUMPY)
def test_numpy_and_back(name: str) -> None:
    source = (np.arange(24) % 2).reshape(2, 3, 4).astype(name)
    tensor = ETensor(source)
    assert tensor.dtype == name
    for array in (tensor.numpy(), np.asarray(memoryview(tensor)), np.from_dlpack(tensor)):
        assert array.dtype == source.dtype
        assert (array == source).all()
    assert np.dtype(tensor.__array_interface__["typestr"]) == source.dtype
    assert dtype_number(source.dtype) == dtype_number(source.dtype.type) == tensor.dtype_code


@pytest.mark.parametrize("name", sorted(set((DTYPE_NAMES | RARE_NAMES).values()) - set(IN_NUMPY)))
def test_what_numpy_lacks_is_refused_and_its_bits_are_not(name: str) -> None:
    memory = np.zeros(64, dtype=np.uint8)
    tensor = ETensor.from_pointer(memory.ctypes.data, name, (4,), owner=memory)
    with pytest.raises(InputTypeError, match=f"NumPy has no dtype like {name}"):
        tensor.numpy()
    with pytest.raises(InputTypeError, match=f"NumPy has no dtype like {name}"):
        np.asarray(tensor)
    with pytest.raises(BufferError, match=f"has a dtype like {name}"):
        memoryview(tensor)
    assert tensor.view("uint8").numpy().nbytes == tensor.nbytes


@pytest.mark.parametrize("name", sorted(set((DTYPE_NAMES | RARE_NAMES).values()) - set(THROUGH_DLPACK)))
def test_what_dlpack_lacks_is_refused(name: str) -> None:
    memory = np.zeros(64, dtype=np.uint8)
    tensor = ETensor.from_pointer(memory.ctypes.data, name, (4,), owner=memory)
    with pytest.raises(BufferError, match=f"DLPack has no dtype like {name}"):
        tensor.__dlpack__(max_version=(1, 0))
    with pytest.raises(InputTypeError, match=f"DLPack has no dtype like {name}; .view"):
        tensor.torch()


@pytest.mark.parametrize("name", [name for name in IN_TORCH if name.startswith(("q", "bits"))])
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_quantized_and_bit_tensors_of_torch_are_refused(name: str) -> None:
    if name.startswith("q") and "x" not in name:
        tensor = torch._empty_affine_quantized([4], scale=1.0, zero_point=0, dtype=IN_TORCH[name])
    elif name.startswith("q"):
        tensor = torch.empty(4, dtype=IN_TORCH[name])
    else:
        tensor = torch.zeros(8, dtype=torch.uint8).view(IN_TORCH[name])
    with pytest.raises(InputTypeError, match="not supported by dlpack"):
        ETensor(tensor)
