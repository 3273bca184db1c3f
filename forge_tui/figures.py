"""Numbers as people read them: three significant digits, a unit, a known width."""

from __future__ import annotations

import math
from typing import Any

NO_VALUE = "-"


def number(value: Any) -> float | None:
    """The value if it is a finite number, else None."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return value if plain and math.isfinite(value) else None


def time_of(ns: float | None) -> str:
    """Nanoseconds as ``812 ns``, ``8.13 us``, ``4.00 ms`` or ``1.20 s``: at most 7 cells."""
    if ns is None or not math.isfinite(ns) or ns < 0:
        return NO_VALUE
    for unit, size in (("ns", 1.0), ("us", 1e3), ("ms", 1e6)):
        if ns < 999.5 * size:
            return f"{_three(ns / size)} {unit}" if size > 1 else f"{ns:.0f} ns"
    return f"{_three(ns / 1e9)} s"


def speedup(ratio: float | None) -> str:
    """A ratio as ``2.31x``, ``12.4x`` or ``104x``."""
    if ratio is None or not math.isfinite(ratio):
        return NO_VALUE
    return f"{_three(ratio)}x"


def interval(low: float | None, high: float | None) -> str:
    """An interval of ratios as ``[2.25, 2.38]``."""
    if low is None or high is None:
        return ""
    return f"[{_three(low)}, {_three(high)}]"


def percent(fraction: float | None) -> str:
    if fraction is None or not math.isfinite(fraction):
        return NO_VALUE
    return f"{min(fraction * 100, 999):.0f}%"


def clock(seconds: float) -> str:
    """A span as ``0:07``, ``1:02`` or ``1:02:03``."""
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def span(seconds: float) -> str:
    """A span in its largest unit: ``7 s``, ``3 min``, ``2 h``, ``5 d``."""
    seconds = max(0.0, seconds)
    for unit, size, most in (("s", 1, 100), ("min", 60, 100), ("h", 3600, 48)):
        if seconds < most * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def seconds_of(value: float) -> str:
    """Seconds spent, with as many digits as matter: ``0.52 s``, ``12 s``."""
    return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"


def dollars(micro: float) -> str:
    """An amount with as many digits as matter: ``$12.40``, ``$0.0135``, ``$0.000012``."""
    if micro < 1:
        return "<$0.000001" if micro else "$0"
    digits = 2 if micro >= 1e6 or micro % 10_000 == 0 else 4 if micro >= 100 else 6
    return f"${micro / 1e6:,.{digits}f}"


def tokens(count: int) -> str:
    """A number of tokens as ``812``, ``9.81k`` or ``1.20M``."""
    for unit, size in (("", 1), ("k", 1_000), ("M", 1_000_000)):
        if count < 999.5 * size:
            return f"{_three(count / size)}{unit}" if unit else str(count)
    return f"{_three(count / 1e9)}G"


def error_of(value: object) -> str:
    """A numeric error as ``1.2e-07``; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NO_VALUE if value is None else str(value)
    if value == 0:
        return "0"
    return f"{value:.1e}" if math.isfinite(value) else str(value)


def size_of(count: float | None) -> str:
    """Bytes as ``16.8 MB``."""
    if count is None:
        return NO_VALUE
    for unit, size in (("B", 1.0), ("kB", 1e3), ("MB", 1e6)):
        if count < 999.5 * size:
            return f"{_three(count / size)} {unit}" if size > 1 else f"{count:.0f} B"
    return f"{_three(count / 1e9)} GB"


def count_of(number: int, one: str, many: str = "") -> str:
    """``1 node``, ``3 nodes``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _three(value: float) -> str:
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}"
