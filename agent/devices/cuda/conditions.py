"""What a sample of a GPU's conditions holds, from the numbers that a driver gives. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# Why clocks are below their best, by bit.
_REASONS = {
    0x001: "idle",
    0x002: "application clocks",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal",
    0x040: "hardware thermal",
    0x080: "power brake",
    0x100: "display clocks",
}
MAX_PROCESSES = 32
_NAME = 60


def reasons(bits: int) -> list[str]:
    """The names of the reasons in a bit mask; unknown bits as hexadecimal numbers."""
    names = [name for bit, name in _REASONS.items() if bits & bit]
    unknown = bits & ~sum(_REASONS)
    return [*names, hex(unknown)] if unknown else names


def conditions(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A sample from what was read, in whole units; what is not known is left out.

    Args:
        raw: ``sm_mhz``, ``mem_mhz``, ``temperature`` (Celsius), ``power_mw``, ``reasons`` (bit
            mask), ``utilisation`` (per cent), ``processes`` as (pid, bytes or None, name), ``busy``
            as pairs of pid and per cent, or None if not known. Any may be missing.

    Returns:
        The same with ``power_w`` and ``throttle`` (names); a process is ``{"pid", "name",
        "memory", "busy"}``.
    """
    sample = {
        name: int(raw[name])
        for name in ("sm_mhz", "mem_mhz", "temperature", "utilisation")
        if raw.get(name) is not None
    }
    found: dict[str, Any] = dict(sample)
    if raw.get("power_mw") is not None:
        found["power_w"] = round(raw["power_mw"] / 1000, 1)
    if raw.get("reasons") is not None:
        found["throttle"] = reasons(int(raw["reasons"]))
    if raw.get("processes") is not None:
        known = raw.get("busy")
        busy: dict[int, int] = {}
        for pid, share in known or ():
            busy[pid] = max(busy.get(pid, 0), share)
        found["processes"] = [
            {"pid": pid, "name": clean(name), "memory": memory,
             "busy": None if known is None else busy.get(pid, 0)}
            for pid, memory, name in list(raw["processes"])[:MAX_PROCESSES]
        ]  # fmt: skip
    return found


def clean(text: str) -> str:
    """A name from outside: its last part, printable, bounded."""
    shown = "".join(c if c.isprintable() else "?" for c in text[:1000])
    return shown.rpartition("/")[2][:_NAME]
