"""What goes wrong around a Vulkan delegate: no Vulkan, no memory, damaged files, wrong arguments, closing, forks."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from hypothesis import given, settings
from hypothesis import strategies as st

import etarena
from etarena import vulkan
from etarena.delegates.vulkan.bound import BoundGraph
from etarena.delegates.vulkan.graph import MAGIC, Graph
from etarena.delegates.vulkan.weights import Weights

ROOT = Path(__file__).parent.parent.parent.parent
X = torch.linspace(-2, 2, 24).reshape(4, 6)


class Plain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (torch.relu(x) * x).exp() - x


class Wide(torch.nn.Module):
    """A megabyte of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(512, 512)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def exported(model: torch.nn.Module, x: torch.Tensor, partitioners: Sequence[object]) -> bytes:
    rows = ({0: torch.export.Dim.DYNAMIC},)
    return etarena.export(model, (x,), dynamic_shapes=rows, partitioners=partitioners).buffer


@pytest.fixture(scope="module")
def plain() -> bytes:
    return exported(Plain(), X, [etarena.VulkanPartitioner()])


@pytest.fixture(scope="module")
def stock() -> bytes:
    """A file of ExecuTorch's exporter: no digest guards its bytes."""
    program = torch.export.export(Plain(), (X,))
    edge = to_edge_transform_and_lower(program, partitioner=[etarena.VulkanPartitioner()])
    return edge.to_executorch().buffer


def blob_of(file: bytes) -> tuple[int, int]:
    """Where the delegate's header is."""
    start = file.index(MAGIC) + len(MAGIC)
    return start + 8, int.from_bytes(file[start : start + 8], "little")


def loaded(file: bytes, device: vulkan.Device | None) -> etarena.Method:
    return etarena.load(file, etarena.Arena(), vulkan=device).method()


# no Vulkan


def outcome(folder: Path, **environment: str) -> str:
    """What a fresh interpreter says of a model for Vulkan, after it has run one for the CPU."""
    code = (
        "import sys, torch, etarena\n"
        "x = torch.ones(2, 6)\n"
        "y = etarena.load(sys.argv[1] + '/cpu.pte').method()(x)[0]\n"
        "assert torch.allclose(y, torch.e - x), y\n"
        "try:\n"
        "    etarena.load(sys.argv[1] + '/gpu.pte').method()\n"
        "except etarena.RuntimeFailure as error:\n"
        "    print(type(error.__cause__).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"ETARENA_LIBVULKAN": "/nowhere/libvulkan.so.1"}, ["MissingFeatureError", "apt-get install libvulkan1"]),
        ({"VK_ICD_FILENAMES": "", "VK_DRIVER_FILES": "/nowhere/icd.json"}, ["mesa-vulkan-drivers"]),
        ({"ETARENA_VULKAN_DEVICE": "first"}, ["InputError", "ETARENA_VULKAN_DEVICE", "'first'"]),
    ],
)
def test_without_vulkan_cpu_models_run_and_others_say_what_is_missing(
    tmp_path: Path, plain: bytes, environment: dict[str, str], said: list[str]
) -> None:
    (tmp_path / "gpu.pte").write_bytes(plain)
    (tmp_path / "cpu.pte").write_bytes(exported(Plain(), X, []))
    found = outcome(tmp_path, **environment)
    assert [text for text in said if text not in found] == []


# no memory


def test_too_little_memory_of_the_device_is_an_error_and_the_method_works_again(device: vulkan.Device) -> None:
    model, x = Wide().eval(), torch.randn(3, 512)
    method = loaded(exported(model, x, [etarena.VulkanPartitioner()]), device)
    device.core.memory_limit = device.core.memory_live + 4096
    try:
        for _ in range(2):
            with pytest.raises(etarena.Error, match="limit of"):
                method.execute([x])
    finally:
        device.core.memory_limit = 0
    torch.testing.assert_close(method.execute([x])[0], model(x), rtol=1e-4, atol=1e-4)


def test_tensors_that_shaders_cannot_see_as_a_whole_are_refused(device: vulkan.Device, plain: bytes) -> None:
    method = loaded(plain, device)
    limit = device.info.limits["maxStorageBufferRange"]
    too_large = torch.empty(limit // 24 + 1, 6)  # never written: no memory behind it
    if limit < 1 << 31:
        with pytest.raises(etarena.Error, match="maxStorageBufferRange"):
            method.execute([too_large])
    torch.testing.assert_close(method.execute([X])[0], Plain()(X), rtol=1e-4, atol=1e-5)


def test_the_limit_of_a_smaller_device_names_the_shape(device: vulkan.Device, stock: bytes) -> None:
    start, _ = blob_of(stock)
    graph = Graph.decode(stock[start - 8 - len(MAGIC) :])
    limits = {**device.info.limits, "maxStorageBufferRange": 64}
    program = etarena.allocator.SizeProgram(graph.n_symbols, graph.code)
    with pytest.raises(etarena.InputError, match=r"\(4, 6\).*96 bytes.*see 64 \(maxStorageBufferRange\)"):
        BoundGraph(graph, program, Weights(device, graph), limits, [(4, 6)])


# damaged files


def edited(file: bytes, old: bytes, new: bytes) -> bytes:
    assert old in file
    assert len(old) == len(new)
    return file.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (MAGIC, b"ETVULKAN2\n", "ETVULKAN2.*export the model again"),
        (b"aten.exp.default", b"aten.xxp.default", "no aten.xxp.default on Vulkan"),
        (b'"operations"', b'"oderations"', "header is damaged"),
        (b'{"values"', b'["values"', "header is damaged"),
        (b'"float32"', b'"float99"', "unknown dtype"),
        (b'"symbols":', b'"symbolz":', "header is damaged"),
    ],
)
def test_files_that_are_damaged_or_newer_are_refused(
    device: vulkan.Device, stock: bytes, old: bytes, new: bytes, said: str
) -> None:
    with pytest.raises(etarena.RuntimeFailure, match=said):
        loaded(edited(stock, old, new), device)


def test_a_header_that_is_longer_than_the_file_is_refused(device: vulkan.Device, stock: bytes) -> None:
    start, _ = blob_of(stock)
    damaged = stock[: start - 8] + (1 << 62).to_bytes(8, "little") + stock[start:]
    with pytest.raises(etarena.RuntimeFailure, match="cut off"):
        loaded(damaged, device)


def test_another_type_than_the_program_has_is_refused(device: vulkan.Device, stock: bytes) -> None:
    method = loaded(edited(stock, b'"float32"', b'"float16"'), device)
    with pytest.raises(etarena.RuntimeFailure, match="exported for float16"):
        method.execute([X])


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_no_byte_of_a_header_can_do_harm(device: vulkan.Device, stock: bytes, data: st.DataObject) -> None:
    start, length = blob_of(stock)
    content = bytearray(stock)
    for _ in range(data.draw(st.integers(1, 3))):
        content[start + data.draw(st.integers(0, length - 1))] = data.draw(
            st.sampled_from(b'0123456789[]{},:"-afltrue ')
        )
    try:
        (found,) = loaded(bytes(content), device).execute([X])
    except etarena.Error:
        return
    assert found.shape == X.shape


# arguments


@pytest.mark.parametrize(
    "wrong",
    [[X.double()], [X.int()], [X[:, :5]], [X[0]], [X, X], [], [None], ["x"], [X.reshape(1, 4, 6)]],
)
def test_wrong_arguments_are_refused_and_the_method_works_again(
    device: vulkan.Device, plain: bytes, wrong: list[object]
) -> None:
    method = loaded(plain, device)
    with pytest.raises((etarena.InputError, etarena.InputTypeError, etarena.ShapeError)):
        method.execute(wrong)
    torch.testing.assert_close(method.execute([X])[0], Plain()(X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("wrong", ["vulkan:0", 0, vulkan.Device, etarena.Device("vulkan")])
def test_only_a_vulkan_device_is_one(plain: bytes, wrong: object) -> None:
    with pytest.raises(etarena.InputTypeError, match=r"vulkan must be an etarena\.vulkan\.Device"):
        etarena.load(plain, vulkan=wrong)


@pytest.mark.parametrize(
    ("skip", "said"),
    [
        (["aten.softmax.dimension", "aten.exp.default"], r"nearest is 'aten\.softmax\.int'"),
        (["aten.add"], None),
        (["aten.ad.Tensor"], r"nearest is 'aten\.add\.Tensor'"),
        ([""], "nearest"),
    ],
)
def test_unknown_operators_to_skip_are_refused_with_the_nearest(skip: list[str], said: str | None) -> None:
    if said is None:
        assert "aten.add.Tensor" in etarena.VulkanPartitioner(skip).skip
        return
    with pytest.raises(etarena.InputError, match=said):
        etarena.VulkanPartitioner(skip)


@pytest.mark.parametrize("skip", ["aten.add.Tensor", [torch.ops.aten.add.Tensor]])
def test_operators_to_skip_are_names(skip: Sequence[str]) -> None:
    with pytest.raises(etarena.InputTypeError, match="sequence of operators' names"):
        etarena.VulkanPartitioner(skip)


# the device


def test_a_device_cannot_be_closed_while_a_method_holds_it(plain: bytes) -> None:
    own = vulkan.Device.create()
    method = loaded(plain, own)
    method.execute([X])
    with pytest.raises(etarena.DeviceError, match="cannot be closed"):
        own.close()
    torch.testing.assert_close(method.execute([X])[0], Plain()(X), rtol=1e-4, atol=1e-5)
    del method
    gc.collect()
    own.close()
    assert own.is_closed
    with pytest.raises(etarena.InputError, match="closed"):
        etarena.load(plain, vulkan=own)


def in_child(action: Callable[[], object]) -> str:
    """Do something in a forked child; gives what it says."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            action()
            said = "nothing went wrong"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        said = stream.read()
    assert os.waitpid(child, 0)[1] == 0
    return said


def test_a_forked_child_is_told_and_the_parent_goes_on(plain: bytes) -> None:
    own = vulkan.Device.create()
    method = loaded(plain, own)
    expected = Plain()(X)
    method.execute([X])
    said = in_child(lambda: method.execute([X]))
    assert "forked" in said
    torch.testing.assert_close(method.execute([X])[0], expected, rtol=1e-4, atol=1e-5)
