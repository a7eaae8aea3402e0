"""Waits with timeouts, semaphores, lost devices."""

import gc
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import etarena
from etarena import vulkan
from etarena.testing.forked import in_child

ROOT = Path(__file__).parent.parent.parent.parent
DEVICE_LOST = -4


def filling(device: vulkan.Device, buffer: vulkan.Buffer, value: int = 1) -> vulkan.Commands:
    commands = device.commands()
    commands.begin(once=False)
    commands.fill_buffer(buffer, 0, buffer.nbytes, value)
    commands.end()
    return commands


def test_semaphores_never_signalled_time_out(device: vulkan.Device) -> None:
    blocker, buffer = device.timeline(), device.buffer(64)
    commands = filling(device, buffer)
    submission = device.submit(commands, wait=[(blocker, 3)])
    with pytest.raises(vulkan.WaitTimeoutError, match=r"not done within 0\.02 s") as caught:
        submission.wait(0.02)
    assert isinstance(caught.value, TimeoutError)
    with pytest.raises(vulkan.WaitTimeoutError):
        device.wait_idle(0.02)
    with pytest.raises(vulkan.WaitTimeoutError, match=r"did not reach 3 within 0\.02 s, it is at 0"):
        blocker.wait(3, 0.02)
    with pytest.raises(vulkan.WaitTimeoutError, match="1 submissions are not done"):
        device.close(0.02)
    with pytest.raises(etarena.DeviceError, match="still at work"):
        device.submit(commands)
    for record in (commands.begin, commands.forget):
        with pytest.raises(etarena.DeviceError, match="still at work"):
            record()
    with pytest.raises(etarena.DeviceError, match="in use: 1 x work of the device"):
        blocker.close()
    assert not submission.done()
    blocker.signal(3)
    submission.wait()
    assert submission.done()
    submission.wait()
    device.submit(commands).wait()  # recorded once, submitted again


def test_timelines_count_up(device: vulkan.Device) -> None:
    timeline = device.timeline(5)
    assert timeline.value == 5
    timeline.wait(5, 0)
    timeline.signal(7)
    assert timeline.value == 7
    for value in (7, 6):
        with pytest.raises(ValueError, match="only grows"):
            timeline.signal(value)
    with pytest.raises(ValueError, match="expected seconds"):
        timeline.wait(7, -1)
    with pytest.raises(ValueError, match="expected seconds"):
        timeline.wait(7, float("nan"))


def test_waiting_lets_other_threads_run() -> None:
    # Without the layer: some versions lose track of a timeline that is signalled while another thread waits.
    with vulkan.Device.create() as device, device.timeline() as timeline:
        commands = filling(device, device.buffer(64))
        submission = device.submit(commands, wait=[(timeline, 1)], signal=[(timeline, 2)])
        signaller = threading.Timer(0.05, timeline.signal, (1,))
        signaller.start()
        submission.wait(30)
        signaller.join()
        timeline.wait(2, 30)
        assert timeline.value == 2
        del submission, commands


def test_binary_semaphores_have_no_value(device: vulkan.Device) -> None:
    semaphore = device.semaphore()
    for use in (lambda: semaphore.value, lambda: semaphore.wait(1), lambda: semaphore.signal(1)):
        with pytest.raises(etarena.DeviceError, match="binary semaphore has no value"):
            use()


def test_semaphores_given_wrongly(device: vulkan.Device) -> None:
    commands = filling(device, device.buffer(64))
    for wait, message in [([device.timeline()], "needs the value"), ([3], "expected a Semaphore")]:
        with pytest.raises(etarena.DeviceError, match=message):
            device.submit(commands, wait=wait)
    closed = device.timeline()
    closed.close()
    with pytest.raises(etarena.DeviceError, match="Semaphore is closed"):
        device.submit(commands, wait=[(closed, 1)])
    device.submit(commands).wait()


def test_commands_used_wrongly(device: vulkan.Device) -> None:
    buffer, commands = device.buffer(64), device.commands()
    with pytest.raises(etarena.DeviceError, match="call begin first"):
        commands.fill_buffer(buffer, 0, 64)
    commands.begin()
    with pytest.raises(etarena.DeviceError, match="call end first"):
        device.submit(commands)
    with pytest.raises(ValueError, match="multiples of 4"):
        commands.fill_buffer(buffer, 2, 4)
    for offset, nbytes in [(0, 68), (64, 4), (0, 0), (1 << 63, 1 << 63)]:
        with pytest.raises(etarena.DeviceError, match="not inside a buffer of 64 bytes"):
            commands.fill_buffer(buffer, offset, nbytes)
    commands.end()
    with pytest.raises(etarena.DeviceError, match="call begin first"):
        commands.end()
    device.submit(commands).wait()
    commands.close()
    with pytest.raises(etarena.DeviceError, match="Commands is closed"):
        device.submit(commands)


@pytest.mark.parametrize("call", ["vkQueueSubmit", "vkWaitForFences", "vkBeginCommandBuffer", "vkResetCommandPool"])
def test_a_lost_device_says_so_and_can_be_closed(call: str) -> None:
    with vulkan.Device.create(validation=True) as device:
        buffer = device.buffer(64)
        device.core.inject(call, DEVICE_LOST)
        with pytest.raises(vulkan.DeviceLostError, match=f"{call}: VK_ERROR_DEVICE_LOST"):
            device.submit(filling(device, buffer)).wait()
        assert device.core.is_lost
        for use in (lambda: device.buffer(64), lambda: filling(device, buffer), device.timeline):
            with pytest.raises(vulkan.DeviceLostError, match="lost before"):
                use()
        device.core.instance.clear_messages()
        device.work.close(5)
        buffer.close()
    assert device.is_closed


def test_a_submission_that_fails_leaves_nothing_in_use(device: vulkan.Device) -> None:
    first, second, image = device.buffer(64), device.buffer(64), device.image(4, 4, "rgba8")
    device.core.inject("vkQueueSubmit", -1)
    with pytest.raises(vulkan.OutOfMemoryError, match="vkQueueSubmit"):
        device.copy(second, first)
    assert first.uses == second.uses == {}
    device.core.inject("vkQueueSubmit", -2)
    with pytest.raises(vulkan.OutOfMemoryError, match="vkQueueSubmit"):
        device.copy(image, first)
    assert image.layout == 0
    device.copy(image, first)
    assert image.layout == 1


def test_faults_come_when_they_are_due(device: vulkan.Device) -> None:
    device.core.inject("vkCreateBuffer", -2, after=2)
    kept = [device.buffer(4), device.buffer(4)]
    with pytest.raises(vulkan.OutOfMemoryError):
        device.buffer(4)
    kept.append(device.buffer(4))
    device.core.inject("vkCreateBuffer", -2)
    device.core.inject("vkCreateBuffer", 0)
    kept.append(device.buffer(4))
    assert len(kept) == 4


def test_leaving_with_work_that_never_ends_is_no_crash() -> None:
    code = """
from etarena import vulkan
device = vulkan.Device.create(validation=True)
buffer, blocker, commands = device.buffer(64), device.timeline(), device.commands()
commands.begin()
commands.fill_buffer(buffer, 0, 64)
commands.end()
device.submit(commands, wait=[(blocker, 1)])
print("left")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")


def test_many_threads_share_a_device(device: vulkan.Device) -> None:
    faults: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for turn in range(20):
                buffer = device.buffer(256)
                device.copy(buffer, bytes([seed]) * 256)
                out, other = bytearray(256), device.buffer(256)
                device.copy(other, buffer)
                device.copy(out, other)
                assert out == bytes([seed]) * 256, turn
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_a_forked_child_leaves_the_device_to_its_parent(device: vulkan.Device) -> None:
    buffer = device.buffer(64, host_visible=True)
    device.copy(buffer, b"\1" * 64)

    def use() -> None:
        nonlocal buffer
        for what in (lambda: device.buffer(4), device.commands, lambda: device.copy(buffer, bytes(64)), device.close):
            with pytest.raises(etarena.DeviceError, match="process that forked this one"):
                what()
        buffer = None  # type: ignore[assignment]
        gc.collect()

    assert in_child(use) == 0
    out = bytearray(64)
    device.copy(out, buffer)
    assert out == b"\1" * 64
