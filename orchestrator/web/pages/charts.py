"""Bars as SVG, made by the server: places and sizes as numbers. Pure.

Sizes are attributes of the drawing, since a page has no style of its own. Whatever a chart shows
stands in a table, too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

WIDTH = 640.0
LEFT = 46.0
TOP, FLOOR = 10.0, 282.0
ROW = 24.0
NAMES = 232.0
"""Where bars begin that have names beside them."""
ROOM = 80.0
"""For the number after a bar."""
CLASSES = {"well": "bar-green", "badly": "bar-red", "unknown": "bar-grey"}
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


class Rect(NamedTuple):
    """One bar, or a part of one."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    says: str


class Label(NamedTuple):
    """A text of a chart."""

    x: float
    y: float
    text: str


class Columns(NamedTuple):
    """Standing bars on a grid."""

    rects: tuple[Rect, ...]
    lines: tuple[Label, ...]
    names: tuple[Label, ...]


class LyingBars(NamedTuple):
    """Lying bars, one row each."""

    height: float
    rows: tuple[tuple[str, float, tuple[Rect, ...], Label], ...]
    """Key, top, parts, and the sum after them."""


def columns(
    values: Sequence[tuple[str, Mapping[str, float]]], say: Callable[[float], str]
) -> Columns:
    """Stack the parts of each value over its name."""
    top = nice(max((sum(parts.values()) for _, parts in values), default=0.0))
    scale = (FLOOR - TOP) / top
    lines = tuple(
        Label(LEFT, round(FLOOR - top * step / 4 * scale, 1), say(top * step / 4))
        for step in range(5)
    )
    wide = (WIDTH - LEFT) / max(1, len(values))
    rects, names = list[Rect](), list[Label]()
    every = max(1, math.ceil(len(values) * 40 / (WIDTH - LEFT)))
    for number, (name, parts) in enumerate(values):
        x, y = LEFT + wide * number, FLOOR
        for kind, amount in parts.items():
            height = amount * scale
            if height > 0:
                y -= height
                says = f"{name}: {say(amount)}"
                bar = max(1.0, min(wide * 0.82, 60.0))
                rects.append(
                    Rect(
                        round(x + (wide - bar) / 2, 1),
                        round(y, 1),
                        round(bar, 1),
                        round(max(1.0, height - 1), 1),
                        CLASSES[kind],
                        says,
                    )
                )
        if number % every == 0:
            names.append(Label(round(x + wide / 2, 1), FLOOR + 16, name))
    return Columns(tuple(rects), lines, tuple(names))


def lying(
    values: Sequence[tuple[str, Sequence[tuple[str, str, float]], str]],
) -> LyingBars:
    """Lay the parts (name, kind, amount) of each value side by side, its sum in words behind."""
    most = max((sum(each[2] for each in parts) for _, parts, _ in values), default=0.0)
    scale = (WIDTH - NAMES - ROOM) / most if most else 0.0
    rows = list[tuple[str, float, tuple[Rect, ...], Label]]()
    for number, (key, parts, said) in enumerate(values):
        x, y = NAMES, 4 + ROW * number
        rects = list[Rect]()
        for name, kind, amount in parts:
            width = max(2.0, amount * scale) if amount > 0 else 0.0
            if width:
                rects.append(
                    Rect(round(x, 1), y + 1, round(max(1.0, width - 1), 1), 14, CLASSES[kind], name)
                )
                x += width
        rows.append((key, y, tuple(rects), Label(round(x + 6, 1), y + 12, said)))
    return LyingBars(ROW * len(values) + 4, tuple(rows))


def nice(value: float) -> float:
    """Return the next number that people divide easily; never zero."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in _STEPS if power * step >= value * 0.999_999)
