"""The conformance suite of device allocators: sound ones pass, and each broken one fails the check meant for it."""

import subprocess
import sys

import pytest

from etarena.device.adaptors import FailingAllocator, LimitAllocator, LogAllocator, TrackAllocator
from etarena.device.cpu_allocator import CpuAllocator
from etarena.device.exported_table import ExportedTable
from etarena.testing import DeviceAllocatorSuite

from ..helpers.broken_allocators import BROKEN
from ..helpers.simulated_device import SimulatedDevice


class TestCpuAllocator(DeviceAllocatorSuite):
    impossible = 1 << 50

    @pytest.fixture
    def allocator(self):
        return CpuAllocator()


class TestSimulatedDevice(DeviceAllocatorSuite):
    @pytest.fixture
    def allocator(self):
        return SimulatedDevice()

    def live_bytes(self, device):
        return device.live


class TestCTable(DeviceAllocatorSuite):
    """The same through the C interface, and back."""

    checks_double_free = False

    @pytest.fixture
    def allocator(self):
        table = ExportedTable(SimulatedDevice())
        yield table.address
        assert table.allocator.live == 0


class TestStack(DeviceAllocatorSuite):
    @pytest.fixture
    def allocator(self):
        lines: list[str] = []
        return TrackAllocator(LimitAllocator(LogAllocator(FailingAllocator(SimulatedDevice()), lines.append), 64 << 20))


class Plain(DeviceAllocatorSuite):
    def live_bytes(self, device):
        return device.live


CHECKS = {name for name in vars(DeviceAllocatorSuite) if name.startswith("test_")}


@pytest.mark.parametrize(("broken", "check", "arguments"), BROKEN, ids=[entry[0].__name__ for entry in BROKEN])
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broken_allocator_fails_its_check(broken, check: str, arguments: tuple) -> None:
    getattr(Plain(), check)(SimulatedDevice(), *arguments)
    with pytest.raises((Exception, pytest.fail.Exception)):
        getattr(Plain(), check)(broken(), *arguments)


def test_every_check_has_an_allocator_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == CHECKS


def test_the_suite_asks_for_its_fixture() -> None:
    with pytest.raises(NotImplementedError, match="give a fixture 'allocator'"):
        DeviceAllocatorSuite.allocator.__wrapped__(Plain())


SUBCLASS = """
import pytest
from etarena.device.cpu_allocator import CpuAllocator
from etarena.testing import DeviceAllocatorSuite

class Broken(CpuAllocator):
    def copy_to_device(self, *call):
        pass

class TestSound(DeviceAllocatorSuite):
    impossible = 1 << 50
    @pytest.fixture
    def allocator(self):
        return CpuAllocator()

class TestBroken(DeviceAllocatorSuite):
    impossible = 1 << 50
    @pytest.fixture
    def allocator(self):
        return Broken()
"""


def test_an_author_subclasses_it_in_a_file_of_his_own(tmp_path) -> None:
    (tmp_path / "test_mine.py").write_text(SUBCLASS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "TestBroken" in result.stdout
    assert "TestSound" not in result.stdout
    assert "bytes did not come back" in result.stdout
