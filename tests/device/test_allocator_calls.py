"""Calls to allocators that hold locks: in a process of their own, which one that hangs ends."""

import subprocess
import sys
from pathlib import Path

CALLS = Path(__file__).with_name("calls_that_may_hang.py")


def test_no_call_waits_for_itself() -> None:
    options = ["-q", "-x", "-p", "no:cacheprovider", "--timeout=30", "--timeout-method=thread"]
    command = [sys.executable, "-m", "pytest", *options, str(CALLS)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
