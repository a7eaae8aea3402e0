"""Commands that are given to the device and waited for in one call."""

import gc
import threading
from typing import TYPE_CHECKING

import pytest

import etarena
from etarena import vulkan
from etarena.testing.forked import in_child

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE_LOST = -4


def filling(device: vulkan.Device, buffer: vulkan.Buffer, value: int = 1, *, once: bool = False) -> vulkan.Commands:
    commands = device.commands()
    commands.begin(once=once)
    commands.fill_buffer(buffer, 0, buffer.nbytes, value)
    commands.end()
    return commands


def blocked(device: vulkan.Device) -> vulkan.Semaphore:
    """Let everything that is submitted from now on wait for the value 1 of what is returned."""
    blocker = device.timeline()
    device.submit(filling(device, device.buffer(64)), wait=[(blocker, 1)])
    return blocker


def test_it_is_done_when_it_returns(device: vulkan.Device) -> None:
    buffer, out = device.buffer(64, host_visible=True), bytearray(64)
    commands = filling(device, buffer, 0x01010101)
    for _ in range(5):
        device.run(commands)
        assert commands.uses == {}
        assert device.work.pending == 0
    assert device.live_objects["fence"] == 1  # used again
    commands.forget()
    device.copy(out, buffer)
    assert out == b"\1" * 64


def test_it_goes_on_after_a_timeout(device: vulkan.Device) -> None:
    buffer = device.buffer(64)
    blocker, commands = blocked(device), filling(device, buffer)
    with pytest.raises(vulkan.WaitTimeoutError, match=r"not done within 0\.02 s"):
        device.run(commands, 0.02)
    assert commands.uses == {"work of the device": 1}
    assert device.work.pending == 2
    with pytest.raises(etarena.DeviceError, match="still at work"):
        device.run(commands, 1)
    with pytest.raises(etarena.DeviceError, match="still at work"):
        commands.begin()
    with pytest.raises(vulkan.WaitTimeoutError):
        device.close(0.02)
    blocker.signal(1)
    device.wait_idle()
    assert commands.uses == {}
    device.run(commands)
    with pytest.raises(ValueError, match="expected seconds"):
        device.run(commands, -1)
    device.run(commands, None)


def test_others_wait_for_what_a_thread_runs() -> None:
    # Without the layer: some versions lose track of a timeline that is signalled while another thread waits.
    with vulkan.Device.create() as device, device.buffer(64) as buffer:
        blocker, commands = blocked(device), filling(device, buffer)
        runner = threading.Thread(target=device.run, args=(commands, 30))
        runner.start()
        while device.work.pending < 2:
            pass
        with pytest.raises(vulkan.WaitTimeoutError):
            device.wait_idle(0.05)
        for refused in (commands.begin, commands.close, device.close):
            with pytest.raises((etarena.DeviceError, TimeoutError)):
                refused(*([0.02] if refused == device.close else []))
        waiter = threading.Thread(target=device.wait_idle, args=(30,))
        waiter.start()
        blocker.signal(1)
        waiter.join()
        runner.join()
        assert device.work.pending == 0
        device.run(commands)
        commands.close()
        blocker.close()


def test_what_was_not_recorded_is_refused(device: vulkan.Device) -> None:
    buffer, commands = device.buffer(64), device.commands()
    give: list[Callable[[vulkan.Commands], object]] = [device.run, lambda given: device.submit(given).wait()]
    for submit in give:
        with pytest.raises(etarena.DeviceError, match="nothing recorded to submit"):
            submit(commands)
        commands.begin()
        with pytest.raises(etarena.DeviceError, match="call end first"):
            submit(commands)
        commands.end()
        submit(commands)
        with pytest.raises(etarena.DeviceError, match=r"nothing recorded to submit.*begin.once=False"):
            submit(commands)  # recorded to be submitted once
        again = filling(device, buffer)
        submit(again)
        submit(again)
        again.forget()
        with pytest.raises(etarena.DeviceError, match="nothing recorded to submit"):
            submit(again)
        again.close()
        with pytest.raises(etarena.DeviceError, match="Commands is closed"):
            submit(again)
    assert device.work.pending == 0


def test_fences_that_do_not_fit_are_refused(device: vulkan.Device) -> None:
    commands, fence = filling(device, device.buffer(64)), vulkan.Fence(device.core)
    assert commands.submit_and_wait(fence)
    fence.reset()
    assert commands.submit_and_wait(fence, 5.0, threading.Lock())
    with (
        vulkan.Device.create() as other,
        vulkan.Fence(other.core) as foreign,
        pytest.raises(etarena.DeviceError, match="Fence of another Vulkan device"),
    ):
        commands.submit_and_wait(foreign)
    fence.close()
    with pytest.raises(etarena.DeviceError, match="Fence is closed"):
        commands.submit_and_wait(fence)
    with pytest.raises(TypeError):
        commands.submit_and_wait(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", ["vkQueueSubmit", "vkWaitForFences", "vkResetFences"])
def test_failures_leave_nothing_in_use(device: vulkan.Device, call: str) -> None:
    commands = filling(device, device.buffer(64))
    device.run(commands)
    device.core.inject(call, -1)
    with pytest.raises(vulkan.OutOfMemoryError, match=call):
        device.run(commands)
    device.wait_idle()
    assert commands.uses == {}
    device.run(commands)
    assert device.work.pending == 0


@pytest.mark.parametrize("call", ["vkQueueSubmit", "vkWaitForFences", "vkResetFences"])
def test_a_lost_device_says_so_and_can_be_closed(call: str) -> None:
    with vulkan.Device.create(validation=True) as device:
        commands = filling(device, device.buffer(64))
        device.core.inject(call, DEVICE_LOST)
        with pytest.raises(vulkan.DeviceLostError, match=f"{call}: VK_ERROR_DEVICE_LOST"):
            device.run(commands)
        for _ in range(2):
            with pytest.raises(vulkan.DeviceLostError, match="lost before"):
                device.run(filling(device, device.buffer(64)))
        device.core.instance.clear_messages()
        device.work.close(5)
        commands.close()
        del commands
        gc.collect()
    assert device.is_closed


def test_a_forked_child_leaves_commands_to_its_parent(device: vulkan.Device) -> None:
    buffer = device.buffer(64)
    commands, fresh, fence = filling(device, buffer), device.commands(), vulkan.Fence(device.core)
    uses: list[Callable[[], object]] = [
        lambda: device.run(commands),
        lambda: device.submit(commands),
        lambda: commands.submit_and_wait(fence),
        fresh.begin,
        lambda: fence.wait(0),
        fence.reset,
        lambda: buffer.handle,
    ]

    def use() -> None:
        for what in uses:
            with pytest.raises(etarena.DeviceError, match="process that forked this one"):
                what()
        commands.close()
        fence.close()

    assert in_child(use) == 0
    device.run(commands)
    assert not fence.done()
