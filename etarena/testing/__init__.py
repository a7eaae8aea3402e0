"""Conformance suites for authors: pytest classes to subclass, with one fixture to give.

Run with ``python -m pytest`` on a file such as::

    class TestMyAllocator(etarena.testing.DeviceAllocatorSuite):
        @pytest.fixture
        def allocator(self):
            return MyAllocator()
"""

from .device_allocator_suite import DeviceAllocatorSuite

__all__ = ["DeviceAllocatorSuite"]
