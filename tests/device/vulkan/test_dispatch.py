"""Shaders at work: values, order, images, and what is refused before it is recorded."""

import struct
import threading

import numpy as np
import pytest

import etarena
from etarena import vulkan

Shaders = dict[str, bytes]
GENERAL, SHADER_READ_ONLY, TRANSFER_DST = 1, 5, 7


def push(count: int, offset: float = 0.0) -> bytes:
    return struct.pack("If", count, offset)


def scale(device: vulkan.Device, shaders: Shaders, **constants: float) -> vulkan.Pipeline:
    return device.pipeline("scale", shaders["scale"], "bb", 8, {100: 64, 0: constants.get("factor", 1.0)})


def whole(buffer: vulkan.Buffer) -> tuple[vulkan.Buffer, int, int]:
    return buffer, 0, buffer.nbytes


def floats(device: vulkan.Device, buffer: vulkan.Buffer) -> np.ndarray:
    out = np.empty(buffer.nbytes // 4, np.float32)
    device.copy(out, buffer)
    return out


def test_numbers_go_through_a_shader(device: vulkan.Device, shaders: Shaders) -> None:
    values = np.random.default_rng(0).standard_normal(1000, dtype=np.float32)
    source, to = device.buffer(4000), device.buffer(4000)
    device.copy(source, values)
    constants = {0: 2.5, 1: True, 2: -3, 100: 32}
    pipeline = device.pipeline("scale", shaders["scale"], "bb", 8, constants)
    assert pipeline.workgroup == (32, 1, 1)
    commands = device.commands()
    commands.begin()
    commands.dispatch(pipeline, [whole(source), whole(to)], push(1000, 0.25), (32, 1, 1))
    commands.end()
    device.run(commands)
    np.testing.assert_allclose(floats(device, to), -(values * np.float32(2.5) + 0.25 - 3), rtol=1e-6, atol=1e-6)


def test_ranges_of_a_buffer_are_all_that_is_seen(device: vulkan.Device, shaders: Shaders) -> None:
    step = device.info.limits["minStorageBufferOffsetAlignment"]
    buffer = device.buffer(4 * step + 400)
    device.copy(buffer, np.full(buffer.nbytes // 4, 5, np.float32))
    commands = device.commands()
    commands.begin()
    inside = [(buffer, 0, step), (buffer, 2 * step, 100)]
    commands.dispatch(scale(device, shaders, factor=3.0), inside, push(25), (1, 1, 1))
    commands.end()
    device.run(commands)
    expected = np.full(buffer.nbytes // 4, 5, np.float32)
    count = min(25, step // 4)
    found = floats(device, buffer)
    first = step // 2
    assert (found[first : first + count] == 15).all()
    expected[first : first + 25] = found[first : first + 25]
    assert (found == expected).all()


def test_barriers_order_dispatches_and_pools_grow(device: vulkan.Device, shaders: Shaders) -> None:
    """300 dispatches, each reading what the one before wrote: more sets than one descriptor pool has."""
    first, second = device.buffer(256), device.buffer(256)
    device.copy(first, np.zeros(64, np.float32))
    pipeline, commands = scale(device, shaders), device.commands()
    commands.begin(once=False)
    for turn in range(300):
        source, to = (second, first) if turn % 2 else (first, second)
        commands.dispatch(pipeline, (whole(source), whole(to)), push(64, turn), (1, 1, 1))
        commands.barrier()
    commands.host_barrier()
    commands.end()
    assert device.live_objects["descriptor pool"] == 3
    for _ in range(2):  # recorded once, submitted twice
        device.run(commands)
    assert (floats(device, first) == 2 * sum(range(300))).all()
    commands.begin()
    assert first.uses == pipeline.uses == {}
    commands.dispatch(pipeline, (whole(first), whole(second)), push(64, 1), (1, 1, 1))
    commands.end()
    device.submit(commands).wait()
    assert (floats(device, second) == 2 * sum(range(300)) + 1).all()
    assert device.live_objects["descriptor pool"] == 3  # used again
    commands.close()
    assert "descriptor pool" not in device.live_objects


def test_a_missing_barrier_is_seen_by_the_validation_layer(shaders: Shaders) -> None:
    """The other tests' silence means something. Copies of the same recording need no barrier."""
    with vulkan.Device.create(validation=True) as device, device.buffer(256) as first, device.buffer(256) as second:
        pipeline, commands = scale(device, shaders), device.commands()
        commands.begin()
        commands.fill_buffer(first, 0, 256)
        commands.dispatch(pipeline, (whole(first), whole(second)), push(64), (1, 1, 1))
        commands.copy_buffer(second, first)
        commands.dispatch(pipeline, (whole(second), whole(first)), push(64), (1, 1, 1))
        assert device.messages == []
        commands.dispatch(pipeline, (whole(first), whole(second)), push(64), (1, 1, 1))
        assert any("HAZARD" in message.id or "HAZARD" in message.text for message in device.messages)
        commands.close()


def test_submissions_see_what_was_submitted_before(device: vulkan.Device, shaders: Shaders) -> None:
    first, second = device.buffer(256), device.buffer(256)
    device.copy(first, np.ones(64, np.float32))
    pipeline = scale(device, shaders, factor=2.0)
    recorded = []
    for source, to in ((first, second), (second, first)) * 3:
        commands = device.commands()
        commands.begin()
        commands.dispatch(pipeline, (whole(source), whole(to)), push(64), (1, 1, 1))
        commands.end()
        recorded.append(device.submit(commands))
    recorded[-1].wait()
    device.wait_idle()
    assert (floats(device, first) == 64).all()


def test_storage_images_are_changed_in_place(device: vulkan.Device, shaders: Shaders) -> None:
    texels = np.random.default_rng(1).integers(0, 256, (3, 5, 4), dtype=np.uint8)
    image = device.image(5, 3, "rgba8")
    device.copy(image, texels)
    pipeline, commands = device.pipeline("invert", shaders["invert_2d"], "i", 0), device.commands()
    commands.begin(once=False)
    commands.dispatch(pipeline, [image], b"", (5, 3, 1))
    commands.end()
    device.run(commands)
    out = np.empty_like(texels)
    device.copy(out, image)
    assert (out == 255 - texels).all()
    device.run(commands)
    device.copy(out, image)
    assert (out == texels).all()
    volume = device.image(2, 3, "rgba8", depth=4)
    texels = np.random.default_rng(2).integers(0, 256, (4, 3, 2, 4), dtype=np.uint8)
    device.copy(volume, texels)
    commands.begin()
    commands.dispatch(device.pipeline("invert3", shaders["invert_3d"], "i", 0), [volume], b"", (2, 3, 4))
    commands.end()
    device.run(commands)
    out = np.empty_like(texels)
    device.copy(out, volume)
    assert (out == 255 - texels).all()


@pytest.mark.parametrize("layout", [GENERAL, SHADER_READ_ONLY])
def test_images_are_sampled_between_their_texels(device: vulkan.Device, shaders: Shaders, layout: int) -> None:
    row = np.array([[[0, 8, 0, 1], [4, 4, 0, 1], [2, 0, 0, 1]]], np.float32)
    image, to = device.image(3, 1, "rgba32f", usage=0x2 | 0x4), device.buffer(4 * 16)
    device.copy(image, row)
    pipeline, commands = device.pipeline("sample", shaders["sample"], "tb", 8), device.commands()
    commands.begin(once=False)
    if layout != GENERAL:
        commands.transition(image, layout)
    commands.dispatch(pipeline, [image, whole(to)], struct.pack("ff", 3.0, 1.0), (4, 1, 1))
    if layout != GENERAL:
        with pytest.raises(etarena.DeviceError, match=r"begins in the layout 1 and ends in 5.*transition\(image, 1\)"):
            commands.end()
        commands.transition(image, GENERAL)
    commands.end()
    device.run(commands)
    # At x = 0, 1, 2, 3 of texels whose middles are at 0.5, 1.5, 2.5: clamped at both edges.
    expected = np.array([[0, 8, 0, 1], [2, 6, 0, 1], [3, 2, 0, 1], [2, 0, 0, 1]], np.float32)
    np.testing.assert_allclose(floats(device, to).reshape(4, 4), expected, atol=0.02)  # weights have 8 bits at least


@pytest.mark.parametrize(
    ("name", "texel"),
    [("rgba8", b"\xff\x80\x00\xff"), ("bgra8", b"\x00\x80\xff\xff"), ("rgba16f", struct.pack("4e", 1, 0.5, 0, 1))],
)
def test_images_of_any_format_are_written(device: vulkan.Device, shaders: Shaders, name: str, texel: bytes) -> None:
    image = device.image(4, 2, name)
    commands = device.commands()
    commands.begin()
    commands.transition(image, GENERAL)
    commands.dispatch(device.pipeline("unformatted", shaders["unformatted"], "i", 0), [image], b"", (4, 2, 1))
    commands.end()
    device.run(commands)
    out = bytearray(8 * len(texel))
    device.copy(out, image)
    assert out == texel * 8


def test_many_images_make_pools_grow(device: vulkan.Device, shaders: Shaders) -> None:
    image, to = device.image(3, 1, "rgba8"), device.buffer(64)
    device.copy(image, bytes(12))
    pipeline, commands = device.pipeline("sample", shaders["sample"], "tb", 8), device.commands()
    commands.begin()
    for _ in range(200):
        commands.dispatch(pipeline, [image, whole(to)], struct.pack("ff", 3.0, 1.0), (4, 1, 1))
        commands.barrier()
    commands.end()
    device.run(commands)
    assert device.live_objects["descriptor pool"] == 4  # 64 textures each


def test_what_cannot_be_dispatched_is_refused(device: vulkan.Device, shaders: Shaders) -> None:
    step, most = (device.info.limits[name] for name in ("minStorageBufferOffsetAlignment", "maxComputeWorkGroupCountX"))
    one, two, closed = device.buffer(1024), device.buffer(1024), device.buffer(64)
    closed.close()
    image = device.image(4, 4, "rgba8")
    plain, unbound = device.buffer(64, usage=0x3), vulkan.Buffer(device.core, 64, 0x20)
    pipeline, commands = scale(device, shaders), device.commands()
    good = [whole(one), whole(two)]
    with pytest.raises(etarena.DeviceError, match="call begin first"):
        commands.dispatch(pipeline, good, push(1), (1, 1, 1))
    commands.begin()
    for resources, message in [
        ([], "0 resources were given, the pipeline binds 2"),
        ([whole(one)], "1 resources were given"),
        ([*good, whole(one)], "3 resources were given"),
        ([whole(one), two], "binding 1: expected .buffer, offset, nbytes., got <"),
        ([whole(one), (two, 0)], "binding 1: expected"),
        ([whole(one), [two, 0, 4]], "binding 1: expected"),
        ([whole(one), (image, 0, 4)], "binding 1: expected"),
        ([whole(one), None], "binding 1: expected .* got None"),
        ([image, whole(two)], "binding 0: expected"),
        ([whole(one), (two, 0, 1025)], "bytes 0 to 1025 are not inside a buffer of 1024 bytes"),
        ([whole(one), (two, 0, 0)], "not inside"),
        ([whole(one), (two, 0, -4)], "not inside"),
        ([whole(one), (two, 1024, 4)], "not inside"),
        ([whole(one), (two, 1 << 62, 1 << 62)], "not inside"),
        ([whole(one), (two, 1 << 64, 4)], "whole numbers were expected"),
        ([whole(one), (two, -16, 4)], "whole numbers were expected"),
        ([whole(one), (two, 0.0, 4)], "whole numbers were expected"),
        ([whole(one), (two, 0, "4")], "whole numbers were expected"),
        ([whole(one), (two, step // 2, 4)], f"multiple of {step} bytes on, not from {step // 2}"),
        ([whole(one), whole(plain)], "without the usage STORAGE_BUFFER"),
        ([whole(one), (unbound, 0, 64)], "has no memory: bind it first"),
        ([whole(one), (closed, 0, 64)], "Buffer is closed"),
    ]:
        with pytest.raises(etarena.Error, match=message):
            commands.dispatch(pipeline, resources, push(1), (1, 1, 1))
    for groups in [(0, 1, 1), (1, 0, 1), (1, 1, 0), (most + 1, 1, 1), (1, 1), (-1, 1, 1), (1 << 32, 1, 1), 3, "abc"]:
        with pytest.raises(etarena.InputError, match="groups"):
            commands.dispatch(pipeline, good, push(1), groups)  # type: ignore[arg-type]
    for constants in (b"", b"1234", bytes(12)):
        with pytest.raises(etarena.InputError, match=f"{len(constants)} bytes of push constants were given, .* has 8"):
            commands.dispatch(pipeline, good, constants, (1, 1, 1))
    for wrong in [(None, good, push(1)), (pipeline, good, None), (pipeline, good, "text"), (pipeline, 3, push(1))]:
        with pytest.raises(TypeError):
            commands.dispatch(*wrong, (1, 1, 1))  # type: ignore[arg-type]
    commands.dispatch(pipeline, good, push(256), (4, 1, 1))
    for what in (one, two, pipeline):
        with pytest.raises(etarena.DeviceError, match="in use: 1 x recorded commands"):
            what.close()
    commands.end()
    device.run(commands)
    lost = vulkan.Pipeline(device.core, shaders["scale"], bindings="bb", push_bytes=8)
    lost.close()
    commands.begin()
    with pytest.raises(etarena.DeviceError, match="Pipeline is closed"):
        commands.dispatch(lost, good, push(1), (1, 1, 1))
    with pytest.raises(etarena.DeviceError, match="Pipeline is closed"):
        _ = lost.handle
    commands.end()
    device.run(commands)


def test_images_that_do_not_fit_are_refused(device: vulkan.Device, shaders: Shaders) -> None:
    image, fresh = device.image(4, 4, "rgba8"), device.image(4, 4, "rgba8")
    device.copy(image, bytes(64))
    volume, other = device.image(4, 4, "rgba8", depth=2), device.image(4, 4, "rgba16f")
    for each, nbytes in ((volume, 128), (other, 128)):
        device.copy(each, bytes(nbytes))
    copied = device.image(4, 4, "rgba8", usage=0x3)
    device.copy(copied, bytes(64))
    elsewhere = device.image(4, 4, "rgba8")
    to = device.buffer(64)
    invert, sample = (
        device.pipeline("invert", shaders["invert_2d"], "i", 0),
        device.pipeline("sample", shaders["sample"], "tb", 8),
    )
    commands = device.commands()
    commands.begin()
    commands.transition(elsewhere, SHADER_READ_ONLY)
    for what, message in [
        (fresh, "layout 0: bring it into 1"),
        (elsewhere, "layout 5: bring it into 1"),
        (volume, "works on images of 2 dimensions"),
        (other, "has format 97, the shader declares 37"),
        (copied, "without the usage STORAGE"),
        ((to, 0, 64), "expected an Image"),
        (None, "expected an Image, got None"),
    ]:
        with pytest.raises(etarena.Error, match=message):
            commands.dispatch(invert, [what], b"", (1, 1, 1))  # type: ignore[list-item]
    for what, message in [
        (fresh, "layout 0"),
        (volume, "images of 2 dimensions"),
        (copied, "without the usage SAMPLED"),
    ]:
        with pytest.raises(etarena.Error, match=message):
            commands.dispatch(sample, [what, whole(to)], bytes(8), (1, 1, 1))
    device.core.inject("vkCreateImageView", -2)
    with pytest.raises(vulkan.OutOfMemoryError, match="vkCreateImageView"):
        commands.dispatch(invert, [image], b"", (1, 1, 1))
    commands.dispatch(invert, [image], b"", (4, 4, 1))
    commands.end()
    device.run(commands)


def test_things_of_another_device_are_not_dispatched(device: vulkan.Device, shaders: Shaders) -> None:
    with vulkan.Device.create() as other, other.buffer(64) as foreign, device.buffer(64) as mine:
        commands = device.commands()
        commands.begin()
        with pytest.raises(etarena.DeviceError, match="Pipeline of another Vulkan device"):
            commands.dispatch(scale(other, shaders), [whole(mine), whole(mine)], push(1), (1, 1, 1))
        with pytest.raises(etarena.DeviceError, match="Buffer of another Vulkan device"):
            commands.dispatch(scale(device, shaders), [whole(mine), whole(foreign)], push(1), (1, 1, 1))
        commands.close()


@pytest.mark.parametrize("call", ["vkCreateDescriptorPool", "vkAllocateDescriptorSets", "vkResetDescriptorPool"])
def test_descriptors_that_cannot_be_had(device: vulkan.Device, shaders: Shaders, call: str) -> None:
    buffer = device.buffer(256)
    device.copy(buffer, np.ones(64, np.float32))
    pipeline, commands = scale(device, shaders, factor=3.0), device.commands()
    used = [whole(buffer), whole(buffer)]
    device.core.inject(call, -2)

    def record() -> None:
        commands.begin()
        commands.dispatch(pipeline, used, push(64), (1, 1, 1))

    if call == "vkResetDescriptorPool":  # of what was recorded before
        record()
    with pytest.raises(vulkan.OutOfMemoryError, match=call):
        record()
    if call == "vkResetDescriptorPool":
        with pytest.raises(etarena.DeviceError, match="call begin first"):
            commands.end()
        with pytest.raises(etarena.DeviceError, match="nothing recorded to submit"):
            device.submit(commands)
    record()
    commands.end()
    device.run(commands)
    assert (floats(device, buffer) == 3).all()


def test_threads_record_and_run_at_the_same_time(device: vulkan.Device, shaders: Shaders) -> None:
    faults: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            source, to = device.buffer(256, host_visible=True), device.buffer(256, host_visible=True)
            device.copy(source, np.full(64, seed, np.float32))
            for turn in range(10):
                pipeline = scale(device, shaders, factor=float(turn))
                commands = device.commands()
                commands.begin(once=False)
                commands.dispatch(pipeline, [whole(source), whole(to)], push(64), (1, 1, 1))
                commands.host_barrier()
                commands.end()
                for _ in range(3):
                    device.run(commands)
                commands.close()
                assert (floats(device, to) == seed * turn).all()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
