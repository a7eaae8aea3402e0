"""The activation region of an arena, used by the device in place."""

import ctypes

import pytest

import etarena
from etarena import Arena, vulkan

MIB = 1 << 20


def arena_bytes(arena: Arena, offset: int, nbytes: int) -> bytes:
    return ctypes.string_at(arena.base + offset, nbytes)


def fill(device: vulkan.Device, span: vulkan.Span, value: int) -> vulkan.Submission:
    commands = device.commands()
    commands.begin()
    commands.fill_buffer(span.buffer, span.offset, span.nbytes, value * 0x01010101)
    commands.end()
    return device.submit(commands)


def test_the_device_writes_the_arena(device: vulkan.Device) -> None:
    arena = Arena(1 << 30)
    shared = vulkan.ArenaImport(device, arena)
    span = shared.range(4096, 8192)
    with arena.turn(), etarena.zero_copy():
        fill(device, span, 7).wait()
    assert arena_bytes(arena, 4096, 8192) == b"\7" * 8192
    assert arena_bytes(arena, 0, 4096) == bytes(4096)
    ctypes.memset(arena.base + 4096, 9, 8192)
    out = bytearray(8192)
    device.copy(out, span)
    assert out == b"\x09" * 8192
    del span
    shared.close()


def test_growth_imports_only_the_new_part(device: vulkan.Device) -> None:
    arena = Arena(1 << 30)
    shared = vulkan.ArenaImport(device, arena)
    first = shared.range(0, MIB)
    (part,) = shared.imported
    assert part == (0, arena.stats.activation_committed)
    again = shared.range(0, MIB)
    assert again.buffer is first.buffer
    later = shared.range(20 * MIB, 64)
    assert shared.imported[0] == part
    assert shared.imported[1] == (part[1], arena.stats.activation_committed)
    assert len(shared.imported) == 2
    fill(device, first, 1).wait()
    fill(device, later, 2).wait()
    assert arena_bytes(arena, 20 * MIB, 64) == b"\2" * 64
    assert arena_bytes(arena, MIB - 64, 64) == b"\1" * 64


def test_ranges_across_two_parts(device: vulkan.Device) -> None:
    arena = Arena(1 << 30)
    shared = vulkan.ArenaImport(device, arena)
    shared.range(0, MIB)
    border = shared.imported[0][1]
    across = shared.range(border - 64, 8 * MIB)
    assert len(shared.imported) == 3
    assert shared.range(border - 64, 8 * MIB).buffer is across.buffer
    assert len(shared.imported) == 3
    fill(device, across, 3).wait()
    assert arena_bytes(arena, border - 64, 8 * MIB) == b"\3" * (8 * MIB)


def test_trim_waits_for_the_device(device: vulkan.Device) -> None:
    arena = Arena(1 << 30)
    shared = vulkan.ArenaImport(device, arena)
    blocker = device.timeline()
    commands = device.commands()
    commands.begin()
    span = shared.range(0, MIB)
    commands.fill_buffer(span.buffer, 0, MIB, 5)
    commands.end()
    running = device.submit(commands, wait=[(blocker, 1)])
    with pytest.raises(TimeoutError):
        shared.trim(timeout=0.05)
    assert shared.imported
    assert arena.stats.activation_committed >= MIB
    blocker.signal(1)
    running.wait()
    commands.forget()
    del span
    shared.trim()
    assert shared.imported == []
    assert arena.stats.activation_committed == 0
    again = shared.range(0, MIB)
    fill(device, again, 6).wait()
    assert arena_bytes(arena, MIB - 4, 4) == b"\6" * 4


def test_memory_given_back_is_not_used(device: vulkan.Device) -> None:
    arena = Arena(1 << 30)
    shared = vulkan.ArenaImport(device, arena)
    span = shared.range(0, MIB)
    commands = device.commands()
    commands.begin(once=False)
    commands.fill_buffer(span.buffer, 0, MIB, 5)
    commands.end()
    device.submit(commands).wait()
    arena.trim()  # behind its back
    with pytest.raises(etarena.DeviceError, match="gave this memory back"):
        device.submit(commands)
    with pytest.raises(etarena.DeviceError, match="gave this memory back"):
        fill(device, span, 1)
    renewed = shared.range(0, MIB)
    assert renewed.buffer is not span.buffer
    fill(device, renewed, 8).wait()
    arena.close()
    with pytest.raises(etarena.DeviceError, match="is closed"):
        fill(device, renewed, 1)
    with pytest.raises(etarena.Error, match="is closed"):
        shared.range(0, 64)
    with pytest.raises(etarena.DeviceError, match="is closed"):
        vulkan.ArenaImport(device, arena)


def test_bad_ranges_are_refused(device: vulkan.Device) -> None:
    arena = Arena(1 << 30)
    shared = vulkan.ArenaImport(device, arena)
    for offset, nbytes in [(-1, 4), (0, 0), (0, -1)]:
        with pytest.raises(etarena.DeviceError, match="no part of an arena"):
            shared.range(offset, nbytes)
    with pytest.raises(etarena.ArenaFullError):
        shared.range(0, 1 << 40)
    assert shared.range(0, 64).nbytes == 64
