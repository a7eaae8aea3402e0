"""What a reader must know about where figures come from; nothing that names a machine."""

import os
import platform
import re
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

__all__ = ["describe"]


def describe() -> list[tuple[str, str]]:
    """Pairs of what and value: date, processor, cores, memory, system, versions."""
    kib = int(_first(r"MemTotal:\s*(\d+)", "/proc/meminfo"))
    return [
        ("date", datetime.now(UTC).strftime("%Y-%m-%d")),
        ("processor", _first(r"model name\s*:\s*(.+)", "/proc/cpuinfo")),
        ("cores", str(len(os.sched_getaffinity(0)))),
        ("memory", f"{kib / (1 << 20):.0f} GiB"),
        ("system", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"),
        ("packages", ", ".join(f"{name} {metadata.version(name)}" for name in ("torch", "executorch", "transformers"))),
    ]


def _first(pattern: str, path: str) -> str:
    found = re.search(pattern, Path(path).read_text())
    return " ".join(found.group(1).split()) if found else "0"
