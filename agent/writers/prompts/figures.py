"""Numbers in prompts: three significant digits and a unit."""

from __future__ import annotations

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_RATES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""))
_ROOMS = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))


def span(ns: float) -> str:
    """A time: ``44.5 us``."""
    return _with_unit(ns, _TIMES)


def size_of(count: float) -> str:
    """Bytes that move, in powers of ten: ``67.1 MB``."""
    return _with_unit(count, _SIZES)


def room_of(count: float) -> str:
    """Bytes of a memory, in powers of two: ``60 MiB``."""
    return _with_unit(count, _ROOMS)


def at_rate(count: float) -> str:
    """A large count, to stand before a noun: ``52.3 T``."""
    return _with_unit(count, _RATES)


def _with_unit(value: float, units: tuple[tuple[float, str], ...]) -> str:
    factor, unit = next((item for item in units if abs(value) >= item[0]), units[-1])
    scaled = value / factor
    digits = 0 if scaled >= 100 or scaled == int(scaled) else 1 if scaled >= 10 else 2
    return f"{scaled:.{digits}f} {unit}"
