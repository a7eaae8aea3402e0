"""What the driver compiled is kept on disk for the next process, and never trusted blindly."""

import gc
import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import etarena
from etarena import vulkan
from etarena.device.vulkan.pipeline_store import cache_folder, opened, sealed
from etarena.testing.forked import in_child

ROOT = Path(__file__).parent.parent.parent.parent
Shaders = dict[str, bytes]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ETARENA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vulkan"


def compile_one(device: vulkan.Device, shaders: Shaders) -> vulkan.Pipeline:
    return device.pipeline("scale", shaders["scale"], "bb", 8)


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_where_it_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variables, expected in [
        ({"ETARENA_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}, Path("/a/vulkan")),
        ({"ETARENA_CACHE_DIR": "", "XDG_CACHE_HOME": "/b"}, None),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/etarena/vulkan")),
        ({"HOME": "/home/me"}, Path("/home/me/.cache/etarena/vulkan")),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "relative"}, Path("/home/me/.cache/etarena/vulkan")),
    ]:
        for name in ("ETARENA_CACHE_DIR", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert cache_folder() == expected


def test_closing_writes_what_was_compiled(folder: Path, shaders: Shaders) -> None:
    with vulkan.Device.create() as device:
        pass
    assert not folder.exists()  # nothing was compiled
    with vulkan.Device.create() as device:
        compile_one(device, shaders)
        uuid = device.info.cache_uuid
    path = only_file(folder)
    content = path.read_bytes()
    assert uuid.hex() in path.name
    data = opened(content)
    assert data is not None
    assert data[16:32] == uuid
    path.chmod(0o600)
    with vulkan.Device.create() as device:
        compile_one(device, shaders)
        with vulkan.PipelineCache(device.core, data) as again:
            assert again.data()[:32] == data[:32]
    assert only_file(folder) == path


@pytest.mark.parametrize("damage", ["empty", "short", "changed", "foreign", "not sealed", "folder"])
def test_what_cannot_be_used_is_ignored_and_replaced(folder: Path, shaders: Shaders, damage: str) -> None:
    with vulkan.Device.create() as device:
        compile_one(device, shaders)
    path = only_file(folder)
    good = path.read_bytes()
    data = opened(good)
    assert data is not None
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(
            {
                "empty": b"",
                "short": good[:-1],
                "changed": good[:-1] + bytes([good[-1] ^ 1]),
                "foreign": sealed(data[:8] + b"\1\2\3\4" + data[12:]),
                "not sealed": data,
            }[damage]
        )
    with vulkan.Device.create(validation=True) as device:
        assert compile_one(device, shaders).handle
        assert device.messages == []
    if damage == "folder":
        assert path.is_dir()
        assert list(folder.iterdir()) == [path]  # nothing half-written is left
    else:
        assert opened(only_file(folder).read_bytes()) is not None


def test_a_folder_that_cannot_be_made_is_no_error(monkeypatch: pytest.MonkeyPatch, shaders: Shaders) -> None:
    monkeypatch.setenv("ETARENA_CACHE_DIR", "/proc/none")
    with vulkan.Device.create() as device:
        assert compile_one(device, shaders).handle


def test_the_seal_tells_what_is_whole() -> None:
    content = sealed(b"data")
    assert opened(content) == b"data"
    assert hashlib.sha256(b"data").digest() in content
    for place in range(len(content)):
        assert opened(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]) is None
        assert opened(content[:place]) is None


@pytest.mark.parametrize("leave", ["pass", "del device, pipeline; gc.collect()", "device.close()"])
def test_processes_leave_it_to_the_next(folder: Path, shaders: Shaders, tmp_path: Path, leave: str) -> None:
    """Also those that do not close the device."""
    module = tmp_path / "scale.spv"
    module.write_bytes(shaders["scale"])
    code = f"""
import gc, pathlib
from etarena import vulkan
device = vulkan.Device.create()
pipeline = device.pipeline("scale", pathlib.Path({str(module)!r}).read_bytes(), "bb", 8)
assert not pathlib.Path({str(folder)!r}).exists()
{leave}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert opened(only_file(folder).read_bytes()) is not None


def test_a_forked_child_writes_nothing(folder: Path, shaders: Shaders) -> None:
    with vulkan.Device.create() as device:
        pipeline = compile_one(device, shaders)

        def use() -> None:
            with pytest.raises(etarena.DeviceError, match="process that forked this one"):
                _ = pipeline.handle
            with pytest.raises(etarena.DeviceError, match="process that forked this one"):
                device.pipeline("other", shaders["scale"], "bb", 8)
            device.pipelines.save()

        assert in_child(use) == 0
        assert not folder.exists()
        assert pipeline.handle


def test_pipelines_in_use_keep_the_device_open(device: vulkan.Device, shaders: Shaders) -> None:
    pipeline, commands = compile_one(device, shaders), device.commands()
    buffer = device.buffer(64)
    commands.begin()
    commands.dispatch(pipeline, [(buffer, 0, 64)] * 2, bytes(8), (1, 1, 1))
    commands.end()
    with pytest.raises(etarena.DeviceError, match="Pipeline cannot be closed, it is in use: 1 x recorded commands"):
        device.close()
    device.run(commands)
    assert compile_one(device, shaders) is pipeline
    commands.close()
    buffer.close()
    device.close()
    assert pipeline.is_closed


def test_threads_that_want_the_same_get_the_same(device: vulkan.Device, shaders: Shaders) -> None:
    found: list[vulkan.Pipeline] = []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        found.extend(device.pipeline("scale", shaders["scale"], "bb", 8, {2: number}) for number in range(8))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 32
    assert len(set(found)) == 8 == device.live_objects["pipeline"]


def test_a_dropped_device_leaves_no_pipeline(shaders: Shaders) -> None:
    device = vulkan.Device.create(validation=True)
    core = device.core
    pipeline = compile_one(device, shaders)
    assert core.live_objects()["pipeline"] == 1
    del device, pipeline
    gc.collect()
    assert core.live_objects() == {}
    assert core.instance.messages() == []
    assert os.environ["ETARENA_CACHE_DIR"] == ""
