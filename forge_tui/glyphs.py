"""The signs on the screen: one set for UTF-8 terminals, one in ASCII. All are one cell wide."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One alphabet. ``ellipsis`` ends clipped text; ``guide_*`` draw the tree."""

    live: str
    queued: str
    faster: str
    same: str
    slower: str
    unsure: str
    library: str
    foreign: str
    failed: str
    pruned: str
    best: str
    done: str
    stopped: str
    paused: str
    folded: str
    ellipsis: str
    guide_bar: str
    guide_tee: str
    guide_end: str
    dot: str
    line: str
    rise: str
    turn_up: str
    turn_right: str
    rule: str
    bar_full: str
    bar_empty: str
    axis: str


UNICODE = Glyphs(
    live="●",
    queued="○",
    faster="▲",
    same="=",
    slower="▽",
    unsure="?",
    library="◇",
    foreign="≠",
    failed="✗",
    pruned="⊘",
    best="★",
    done="✓",
    stopped="■",
    paused="‖",
    folded="▸",
    ellipsis="…",
    guide_bar="│ ",
    guide_tee="├ ",
    guide_end="└ ",
    dot="•",
    line="━",
    rise="┃",
    turn_up="┛",
    turn_right="┏",
    rule="┈",
    bar_full="━",
    bar_empty="─",
    axis="│",
)
ASCII = Glyphs(
    live="o",
    queued=".",
    faster="+",
    same="=",
    slower="<",
    unsure="?",
    library="L",
    foreign="!",
    failed="x",
    pruned="/",
    best="*",
    done="v",
    stopped="#",
    paused="|",
    folded=">",
    ellipsis="~",
    guide_bar="| ",
    guide_tee="|-",
    guide_end="`-",
    dot=".",
    line="=",
    rise="|",
    turn_up="+",
    turn_right="+",
    rule="-",
    bar_full="#",
    bar_empty=".",
    axis="|",
)
