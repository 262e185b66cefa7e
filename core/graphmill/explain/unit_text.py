"""Times and sizes as text for people."""

from __future__ import annotations


def time_text(nanoseconds: float) -> str:
    """Return a time with three digits: `1.23 ms`."""
    for limit, factor, unit in ((1e3, 1, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms")):
        if nanoseconds < limit:
            return f"{nanoseconds / factor:.3g} {unit}"
    return f"{nanoseconds / 1e9:,.3f} s"


def bytes_text(num_bytes: float) -> str:
    """Return a size in powers of 1024: `1.5 MiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(num_bytes) < 1024:
            return f"{num_bytes:.0f} {unit}" if unit == "bytes" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:,.1f} TiB"
