"""Whole runs of small models on the Vulkan device: where memory lies, what is copied, what goes wrong."""

import gc
import threading
import weakref

import numpy as np
import pytest
import torch

import etarena
from etarena import vulkan
from etarena.delegates.vulkan import device_run
from etarena.delegates.vulkan.session import session_of

DYNAMIC = torch.export.Dim.DYNAMIC


class Mixed(torch.nn.Module):
    """Two parts for Vulkan with one between that no shader knows; the inner tensors of both overlap."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = torch.relu(x) + y
        b = torch.asinh(a)
        c = torch.cat([b, x], 0) * 2
        return c.sigmoid() + c, a


class Plain(torch.nn.Module):
    """One part for Vulkan."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = torch.relu(x) + y
        return (z * x).exp() - z


def exported(model: torch.nn.Module, **more: object) -> bytes:
    shapes = {"x": {0: DYNAMIC, 1: DYNAMIC}, "y": {0: DYNAMIC, 1: DYNAMIC}}
    given = (torch.randn(4, 6), torch.randn(4, 6))
    partitioners = [etarena.VulkanPartitioner()]
    return etarena.export(model, given, dynamic_shapes=shapes, partitioners=partitioners, **more).buffer


@pytest.fixture(scope="module")
def mixed() -> bytes:
    return exported(Mixed())


@pytest.fixture(scope="module")
def plain() -> bytes:
    return exported(Plain())


@pytest.fixture(scope="module")
def on_device() -> bytes:
    return exported(Plain(), input_devices={"x": "vulkan", "y": "vulkan"}, output_devices="vulkan", copies="error")


def pair(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(*shape), torch.randn(*shape)


SHAPES = [(4, 6), (1, 1), (33, 7), (0, 5), (300, 129), (4, 6), (2, 3)]


def test_a_model_with_a_part_on_the_cpu_equals_eager_at_every_size(device: vulkan.Device, mixed: bytes) -> None:
    method = etarena.load(mixed, etarena.Arena(poison=True), vulkan=device).method()
    for shape in SHAPES:
        x, y = pair(*shape)
        for found, expected in zip(method.execute([x, y]), Mixed()(x, y), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_inner_tensors_are_scratch_of_the_arena(device: vulkan.Device, plain: bytes) -> None:
    arena = etarena.Arena()
    method = etarena.load(plain, arena, vulkan=device).method()
    before = device.core.memory_live
    method.execute([*pair(256, 256)])
    run = method.last_run
    assert run is not None
    # The sum lies where relu's result lay, the product and exp lie where the result comes; inputs and the result
    # come from outside, one staged copy of each.
    tensor = 256 * 256 * 4
    assert 4 * tensor <= run.delegate_scratch_bytes <= 4 * tensor + 4096
    assert run.scratch_outside_arena == ()
    arena_bytes = arena.stats.activation_committed
    assert device.core.memory_live - before <= arena_bytes  # imported, nothing else


def test_what_comes_from_outside_the_plan_is_copied_and_counted(device: vulkan.Device, plain: bytes) -> None:
    method = etarena.load(plain, vulkan=device).method()
    method.execute([*pair(8, 8)])
    run = method.last_run
    assert run is not None
    assert [copy.nbytes for copy in run.copies] == [256, 256, 256]
    assert all("planned" in copy.cause for copy in run.copies)
    with etarena.zero_copy(), pytest.raises(etarena.CopyRefusedError, match="planned"):
        method.execute([*pair(8, 8)])
    method.execute([*pair(8, 8)])


def test_tensors_on_the_device_go_in_and_out_without_a_copy(device: vulkan.Device, on_device: bytes) -> None:
    method = etarena.load(on_device, vulkan=device).method()
    for shape in SHAPES:
        x, y = pair(*shape)
        inputs = [etarena.ETensor(x).to("vulkan"), etarena.ETensor(y).to("vulkan")]
        for _ in range(2):
            with etarena.zero_copy():
                (found,) = method.execute(inputs)
            assert str(found.device) == "vulkan:0"
            np.testing.assert_allclose(found.cpu().numpy(), Plain()(x, y).numpy(), rtol=1e-4, atol=1e-5)
        assert method.last_run is not None
        assert method.last_run.copies == ()


def test_recorded_commands_give_way_to_memory_that_is_freed(device: vulkan.Device, on_device: bytes) -> None:
    method = etarena.load(on_device, vulkan=device).method()
    live = []
    for _ in range(6):
        x, y = pair(16, 16)
        (found,) = method.execute([etarena.ETensor(x).to("vulkan"), etarena.ETensor(y).to("vulkan")])
        np.testing.assert_allclose(found.cpu().numpy(), Plain()(x, y).numpy(), rtol=1e-4, atol=1e-5)
        del found
        live.append(device.core.memory_live)
    assert live[-1] == live[1]


def test_memory_of_the_device_serves_where_the_arena_cannot(
    device: vulkan.Device, mixed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_of(device)
    monkeypatch.setattr(session, "shares_arena", False)
    method = etarena.load(mixed, vulkan=device).method()
    for shape in SHAPES:
        x, y = pair(*shape)
        with etarena.record_copies() as copies:
            results = method.execute([x, y])
        for found, expected in zip(results, Mixed()(x, y), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert method.last_run is not None
        assert method.last_run.copies == tuple(copies)
        if x.numel():
            assert method.last_run.bytes_copied >= 4 * x.nbytes
    assert method.last_run is not None
    assert method.last_run.delegate_scratch_bytes == 0
    with etarena.zero_copy(), pytest.raises(etarena.Error):
        method.execute([*pair(4, 4)])
    monkeypatch.undo()
    again = etarena.load(mixed, vulkan=device).method()
    torch.testing.assert_close(again.execute([x, y])[1], Mixed()(x, y)[1])


def test_runs_in_memory_of_the_device_are_recorded_once(
    device: vulkan.Device, plain: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_of(device)
    monkeypatch.setattr(session, "shares_arena", False)
    method = etarena.load(plain, vulkan=device).method()
    for shape in [(4, 6), (4, 6), (1, 3)]:
        x, y = pair(*shape)
        torch.testing.assert_close(method.execute([x, y])[0], Plain()(x, y), rtol=1e-4, atol=1e-5)
    with monkeypatch.context() as patch:
        patch.setattr(device_run, "record", None)
        for shape in [(4, 6), (1, 3)]:
            x, y = pair(*shape)
            torch.testing.assert_close(method.execute([x, y])[0], Plain()(x, y), rtol=1e-4, atol=1e-5)
    # Memory that grows is another buffer: what was recorded with the former one gives way at once.
    before, room = device.core.memory_live, session.memory.nbytes
    x, y = pair(400, 400)
    torch.testing.assert_close(method.execute([x, y])[0], Plain()(x, y), rtol=1e-4, atol=1e-5)
    assert session.memory.nbytes > room
    assert device.core.memory_live - before <= session.memory.nbytes - room + 3 * 400 * 400 * 4 + 4096
    x, y = pair(4, 6)
    torch.testing.assert_close(method.execute([x, y])[0], Plain()(x, y), rtol=1e-4, atol=1e-5)


def test_trimmed_arenas_are_imported_again(device: vulkan.Device, mixed: bytes) -> None:
    arena = etarena.Arena()
    method = etarena.load(mixed, arena, vulkan=device).method()
    for shape in [(100, 100), (4, 4), (200, 200)]:
        x, y = pair(*shape)
        torch.testing.assert_close(method.execute([x, y])[1], Mixed()(x, y)[1])
        method.trim()
        arena.trim()


def test_methods_with_arenas_of_their_own_run_at_the_same_time(device: vulkan.Device, mixed: bytes) -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            method = etarena.load(mixed, etarena.Arena(), vulkan=device).method()
            generator = torch.Generator().manual_seed(seed)
            for size in (3, 50, 7, 50):
                x, y = torch.randn(size, 9, generator=generator), torch.randn(size, 9, generator=generator)
                torch.testing.assert_close(method.execute([x, y])[0], Mixed()(x, y)[0], rtol=1e-4, atol=1e-5)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_lost_device_and_no_memory_are_errors(mixed: bytes) -> None:
    device = vulkan.Device.create()
    method = etarena.load(mixed, etarena.Arena(), vulkan=device).method()
    x, y = pair(5, 5)
    device.core.inject("vkQueueSubmit", -2)  # VK_ERROR_OUT_OF_DEVICE_MEMORY
    with pytest.raises(etarena.Error, match="OUT_OF_DEVICE_MEMORY"):
        method.execute([x, y])
    torch.testing.assert_close(method.execute([x, y])[1], Mixed()(x, y)[1])
    device.core.inject("vkQueueSubmit", -4)  # VK_ERROR_DEVICE_LOST
    with pytest.raises(etarena.Error, match="DEVICE_LOST"):
        method.execute([x, y])
    with pytest.raises(etarena.Error, match="DEVICE_LOST"):
        method.execute([x, y])
    other = etarena.load(mixed, etarena.Arena(), vulkan=vulkan.Device.create()).method()
    torch.testing.assert_close(other.execute([x, y])[1], Mixed()(x, y)[1])


def test_tensors_of_another_device_are_refused(device: vulkan.Device, on_device: bytes) -> None:
    method = etarena.load(on_device, vulkan=device).method()
    stranger = vulkan.Device.create()
    buffer = stranger.buffer(256)
    x = stranger.tensor(buffer, "float32", (8, 8))
    y = etarena.ETensor(torch.randn(8, 8)).to("vulkan")
    with pytest.raises(etarena.Error, match="belongs to VkDevice"):
        method.execute([x, y])
    method.execute([y, y])


@pytest.mark.filterwarnings("ignore::executorch.exir._warnings.ExperimentalWarning")
def test_a_file_for_vulkan_runs_in_the_stock_runtime() -> None:
    from executorch.runtime import Runtime

    from etarena.own_delegates import register_own_delegates

    register_own_delegates(["EtarenaVulkan"])
    stock = etarena.load(stock_file(), vulkan=vulkan.Device.create()).method()
    x, y = pair(4, 6)
    torch.testing.assert_close(stock.execute([x, y])[0], Plain()(x, y), rtol=1e-4, atol=1e-5)
    content = stock_file()  # ExecuTorch's program does not keep its bytes
    program = Runtime.get().load_program(content)
    method = program.load_method("forward")
    assert method is not None
    torch.testing.assert_close(method.execute([x, y])[0], Plain()(x, y), rtol=1e-4, atol=1e-5)


def stock_file() -> bytes:
    """Exported by ExecuTorch alone, with our partitioner."""
    from executorch.exir import to_edge_transform_and_lower

    program = torch.export.export(Plain(), (torch.randn(4, 6), torch.randn(4, 6)))
    edge = to_edge_transform_and_lower(program, partitioner=[etarena.VulkanPartitioner()])
    return edge.to_executorch().buffer


def test_an_arena_is_let_go_with_its_methods(device: vulkan.Device, plain: bytes) -> None:
    gc.collect()
    before = device.live_objects
    arena = etarena.Arena()
    known = weakref.ref(arena)
    method = etarena.load(plain, arena, vulkan=device).method()
    method.execute([*pair(4, 6)])
    assert device.live_objects != before
    del method, arena
    gc.collect()
    assert known() is None
    assert device.live_objects.get("memory block", 0) <= before.get("memory block", 0)
