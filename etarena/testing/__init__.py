"""Conformance suites for authors: pytest classes to subclass, with one fixture to give.

Run with ``python -m pytest`` on a file such as::

    class TestMyAllocator(etarena.testing.DeviceAllocatorSuite):
        @pytest.fixture
        def allocator(self):
            return MyAllocator()

and in the same way for a delegate, with a `DelegateCase`.
"""

from .delegate_case import DelegateCase
from .delegate_suite import DelegateSuite
from .device_allocator_suite import DeviceAllocatorSuite

__all__ = ["DelegateCase", "DelegateSuite", "DeviceAllocatorSuite"]
