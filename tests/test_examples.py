"""The example in Python runs; the one in C is built and run in tests/delegates/test_function_tables.py."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "python_delegate.py"


def test_python_delegate() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"length +(\d+): arena +(\d+) bytes, of which scratch +(\d+); .* (\S+)$", done.stdout, re.M)
    assert [int(length) for length, *_ in lines] == [10, 200, 3, 64]
    for length, arena, scratch, difference in lines:
        # The weights of two heads.
        assert int(scratch) == 2 * int(length) ** 2 * 4
        assert int(arena) >= int(scratch)
        assert float(difference) < 1e-5


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 150
