"""Pipelines: what they are made of, and what is refused before a driver sees it."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

import etarena
from etarena import vulkan
from etarena.device.vulkan.requirements import Enabled
from etarena.device.vulkan.spirv import ShaderBinding, read_interface

Shaders = dict[str, bytes]
DECLARED = {"bindings": "bb", "push_bytes": 104}  # of declares.comp


def test_what_a_shader_declares_is_read(shaders: Shaders) -> None:
    found = read_interface(shaders["declares"])
    assert found.bindings == {0: ShaderBinding("b"), 1: ShaderBinding("b")}
    # uint at 0, mat3 of columns of 16 bytes from 16 on, two structs of 16 from 64 on, a float at 100
    assert found.push_bytes == 104
    assert found.workgroup_size({100: 8, 102: 2}) == (8, 1, 2)
    assert found.features == {"shaderInt64"}
    assert read_interface(shaders["declares_fixed"]).workgroup_size({}) == (2, 3, 4)
    assert read_interface(shaders["declares_wide"]).wide_constants == {7}
    assert read_interface(shaders["invert_2d"]).bindings == {0: ShaderBinding("i", False, 37)}
    assert read_interface(shaders["invert_3d"]).bindings == {0: ShaderBinding("i", True, 37)}
    assert read_interface(shaders["sample"]).bindings == {0: ShaderBinding("t"), 1: ShaderBinding("b")}
    assert read_interface(shaders["unformatted"]).bindings == {0: ShaderBinding("i")}


@given(data=st.data())
def test_damaged_modules_are_refused_or_read(shaders: Shaders, data: st.DataObject) -> None:
    """Whatever the words say, reading ends, and the only error is one of ours."""
    code = bytearray(shaders[data.draw(st.sampled_from(sorted(shaders)))])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(code) // 4 - 1)) * 4
        code[place : place + 4] = struct.pack("<I", data.draw(st.integers(0, 2**32 - 1) | st.integers(0, 64)))
    cut = data.draw(st.integers(0, len(code)) | st.just(len(code)))
    try:
        found = read_interface(bytes(code[:cut]))
    except etarena.InputError:
        return
    assert len(found.workgroup) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda code: b"", "0 bytes are no SPIR-V"),
        (lambda code: code[:16], "16 bytes are no SPIR-V"),
        (lambda code: code + b"\0", "bytes are no SPIR-V"),
        (lambda code: b"GLSL" + code[4:], "SPIR-V begins with 0x07230203, this code with 0x4c534c47"),
        (lambda code: code[::-1], "SPIR-V begins with"),
        (lambda code: code[:20], "no entry point 'main'"),
        (lambda code: code[:100], "damaged|no entry point"),
        (lambda code: code.replace(b"main", b"mine"), "no entry point 'main'"),
    ],
)
def test_what_is_no_shader_is_refused(device: vulkan.Device, shaders: Shaders, change: object, message: str) -> None:
    with pytest.raises(etarena.InputError, match=message):
        vulkan.Pipeline(device.core, change(shaders["scale"]), bindings="bb", push_bytes=8)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("declares", {"bindings": "b"}, "has a binding 1, bindings='b' says nothing about it"),
        ("declares", {"bindings": "bi"}, "binding 1 of the shader is 'b'"),
        ("declares", {"bindings": "bx"}, "b .buffer., i .storage image. and t .texture. are known"),
        ("declares", {"push_bytes": 100}, "reads 104 bytes of push constants, push_bytes is 100"),
        ("declares", {"push_bytes": 106}, "push constants of 106 bytes: a multiple of 4"),
        ("declares", {"push_bytes": 1 << 20}, "push constants of 1048576 bytes"),
        ("declares", {"push_bytes": -4}, "push constants of -4 bytes"),
        ("declares", {"bindings": "b" * 100_000}, "this device may have"),
        ("declares", {"constants": {100: 1 << 20}}, "are possible in x"),
        ("declares", {"constants": {100: 0}}, "are possible in x"),
        ("declares", {"constants": {100: 512, 101: 512}}, "512, 512, 1. invocations"),
        ("declares", {"constants": {0: "1"}}, "constant 0 is '1': a number of 32 bits"),
        ("declares", {"constants": {0: 1 << 32}}, "constant 0 is 4294967296"),
        ("declares", {"constants": {0: -(1 << 31) - 1}}, "constant 0 is -2147483649"),
        ("declares", {"constants": {-1: 1}}, "ids of 32 bits, not -1"),
        ("declares", {"constants": {"a": 1}}, "ids of 32 bits, not 'a'"),
        ("declares_wide", {"constants": {7: 1}}, "constant 7 of the shader has not 32 bits"),
        ("declares_uniform", {}, "binding 0 of the shader is no storage buffer"),
        ("declares_other_set", {}, "binding 0 of the shader is of another descriptor set"),
    ],
)
def test_what_does_not_fit_the_shader_is_refused(
    device: vulkan.Device, shaders: Shaders, name: str, changes: dict[str, object], message: str
) -> None:
    before = device.live_objects
    with pytest.raises(etarena.Error, match=message):
        vulkan.Pipeline(device.core, shaders[name], **(DECLARED | changes))  # type: ignore[arg-type]
    assert device.live_objects == before
    with vulkan.Pipeline(device.core, shaders["declares"], **DECLARED, constants={100: 4}) as pipeline:  # type: ignore[arg-type]
        assert pipeline.handle
        assert pipeline.workgroup == (4, 1, 1)
        assert (pipeline.bindings, pipeline.push_bytes) == ("bb", 104)


@pytest.mark.parametrize(
    "call",
    [
        "vkCreateShaderModule",
        "vkCreateSampler",
        "vkCreateDescriptorSetLayout",
        "vkCreatePipelineLayout",
        "vkCreateComputePipelines",
        "vkCreatePipelineCache",
    ],
)
def test_what_the_driver_refuses_leaves_nothing(device: vulkan.Device, shaders: Shaders, call: str) -> None:
    before = device.live_objects
    device.core.inject(call, -2)
    with pytest.raises(vulkan.OutOfMemoryError, match=call):
        device.pipeline("sample", shaders["sample"], "tb", 8)
    assert {name: count for name, count in device.live_objects.items() if name != "pipeline cache"} == before
    assert device.pipeline("sample", shaders["sample"], "tb", 8).handle


def test_caches_hold_what_another_may_begin_with(device: vulkan.Device, shaders: Shaders) -> None:
    with vulkan.PipelineCache(device.core) as cache:
        vulkan.Pipeline(device.core, shaders["scale"], bindings="bb", push_bytes=8, cache=cache).close()
        data = cache.data()
    assert data[16:32] == device.info.cache_uuid
    with vulkan.PipelineCache(device.core, data) as again:
        assert again.data()[:32] == data[:32]
        vulkan.Pipeline(device.core, shaders["scale"], bindings="bb", push_bytes=8, cache=again).close()
    with pytest.raises(etarena.DeviceError, match="PipelineCache is closed"):
        vulkan.Pipeline(device.core, shaders["scale"], bindings="bb", push_bytes=8, cache=again)
    with pytest.raises(etarena.DeviceError, match="PipelineCache is closed"):
        again.data()
    for wrong, message in [
        (data[:31], "31 bytes are no pipeline cache"),
        (struct.pack("<I", 31) + data[4:], "not those of a pipeline cache"),
        (struct.pack("<I", 1 << 30) + data[4:], "not those of a pipeline cache"),
        (data[:4] + struct.pack("<I", 2) + data[8:], "not those of a pipeline cache"),
        (data[:8] + b"\1\2\3\4" + data[12:], "another device or driver"),
        (data[:16] + bytes(16) + data[32:], "another device or driver"),
    ]:
        with pytest.raises(etarena.DeviceError, match=message):
            vulkan.PipelineCache(device.core, wrong)


def test_caches_of_another_device_are_refused(device: vulkan.Device, shaders: Shaders) -> None:
    with vulkan.Device.create() as other, vulkan.PipelineCache(other.core) as cache:
        with pytest.raises(etarena.DeviceError, match="PipelineCache of another Vulkan device"):
            vulkan.Pipeline(device.core, shaders["scale"], bindings="bb", push_bytes=8, cache=cache)
        assert cache.uses == {}


def test_features_that_the_device_was_not_made_with(device: vulkan.Device, shaders: Shaders) -> None:
    plain = vulkan.Device(device.core, device.info, Enabled([], [], adopted=True))
    with pytest.raises(vulkan.MissingFeatureError, match=r"'declares' needs the feature shaderInt64.*features="):
        plain.pipeline("declares", shaders["declares"], "bb", 104)
    plain.pipelines.close()
    assert device.pipeline("declares", shaders["declares"], "bb", 104).handle


def test_pipelines_are_compiled_once_for_each_set_of_constants(device: vulkan.Device, shaders: Shaders) -> None:
    code = shaders["scale"]
    one = device.pipeline("scale", code, "bb", 8, {0: 1.0, 1: False})
    assert device.pipeline("scale", code, "bb", 8, {1: False, 0: 1.0}) is one
    assert device.pipeline("scale", bytes(bytearray(code)), "bb", 8, {0: 1.0, 1: False}) is one
    # What counts is the bits that a shader sees.
    others = [device.pipeline("scale", code, "bb", 8, values) for values in ({0: 1}, {0: 1.0}, {0: True}, {})]
    assert len({id(pipeline) for pipeline in (one, *others)}) == 4
    nans = [device.pipeline("scale", code, "bb", 8, {0: math.nan}).handle for _ in range(2)]
    assert nans[0] == nans[1]
    assert device.pipeline("scale", code, "bb", 8, {0: 0.0}) is not device.pipeline("scale", code, "bb", 8, {0: -0.0})
    with pytest.raises(etarena.InputError, match="'scale' of other code is there already"):
        device.pipeline("scale", shaders["declares"], "bb", 8, {})
    with pytest.raises(etarena.InputError, match="push_bytes is 4"):
        device.pipeline("scale", code, "bb", 4, {})
