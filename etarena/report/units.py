"""Bytes on axes and in tooltips, in powers of 1024: memory comes in pages, and plans are compared by halves."""

__all__ = ["UNITS", "bytes_text", "unit_for"]

UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))
"""Names and sizes in bytes, largest first."""


def unit_for(largest: int) -> tuple[str, int]:
    """Name and bytes of the unit in which an axis up to `largest` bytes is easy to read."""
    return next((unit for unit in UNITS if largest >= unit[1]), UNITS[-1])


def bytes_text(count: int) -> str:
    """A byte count with its unit and three significant digits, e.g. ``1.06 GiB``."""
    name, size = unit_for(count)
    value = count / size
    return f"{count} B" if size == 1 else f"{value:.0f} {name}" if value >= 100 else f"{value:.3g} {name}"
