"""The graph of a plan as places and lines: layers from left to right. Pure.

A task stands one layer behind the last of those that it waits for. A line over several layers gets
a place of its own in each, so that it crosses no box. Must not know what a state looks like.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BOX = (260.0, 48.0)
"""Width and height of a task."""
GAP = 16.0
BETWEEN = 90.0
"""Between two layers."""
LANE = 8.0
"""Height that a line takes on its way through a layer."""
MARGIN = 6.0
SWEEPS = 6
COLUMNS = 4
"""Of tasks that wait for nothing and that nothing waits for."""


class Box(NamedTuple):
    """Where a task stands: its upper left corner."""

    task: str
    x: float
    y: float


class Line(NamedTuple):
    """A line from a task to one that waits for it."""

    needs: str
    task: str
    path: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Everything placed."""

    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    width: float
    height: float


@dataclass(slots=True, eq=False)
class _Item:
    """A task in its layer, or a line on its way through one."""

    layer: int
    task: str = ""
    y: float = 0.0

    @property
    def height(self) -> float:
        return BOX[1] if self.task else LANE

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


def drawn(tasks: Sequence[str], edges: Sequence[tuple[str, str]]) -> Drawing:
    """Place tasks (each after those that it waits for, but for circles) and lines (needs, task)."""
    place = {task: number for number, task in enumerate(tasks)}
    # A line back in that order closes a circle, which layers cannot show.
    ahead = [(needs, task) for needs, task in edges if place[needs] < place[task]]
    back = [(needs, task) for needs, task in edges if place[needs] > place[task]]
    tied = {each for edge in edges for each in edge}
    layer_of = _layers([task for task in tasks if task in tied], ahead)
    items = {task: _Item(layer, task) for task, layer in layer_of.items()}
    ways = {edge: _way(items, *edge) for edge in ahead}
    layers: list[list[_Item]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for item in items.values():
        layers[item.layer].append(item)
    for way in ways.values():
        for lane in way[1:-1]:
            layers[lane.layer].append(lane)
    _arrange(layers, list(ways.values()))
    floor = max((item.y + item.height for layer in layers for item in layer), default=0.0)
    boxes = [Box(item.task, _left(item.layer), item.y) for item in items.values()]
    boxes += _loose([task for task in tasks if task not in tied], floor + 2 * GAP if boxes else 0)
    lines = [Line(needs, task, _path(way)) for (needs, task), way in ways.items()]
    lines += [Line(needs, task, _around(items[needs], items[task])) for needs, task in back]
    width = max((box.x + BOX[0] for box in boxes), default=0.0)
    height = max((box.y + BOX[1] for box in boxes), default=0.0)
    moved = tuple(Box(box.task, box.x + MARGIN, box.y + MARGIN) for box in boxes)
    return Drawing(moved, tuple(lines), width + 2 * MARGIN, max(height, floor) + 2 * MARGIN)


def _layers(tasks: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    needs: dict[str, list[str]] = {}
    for before, task in edges:
        needs.setdefault(task, []).append(before)
    found: dict[str, int] = {}
    for task in tasks:
        found[task] = 1 + max((found[each] for each in needs.get(task, ())), default=-1)
    return found


def _way(items: Mapping[str, _Item], needs: str, task: str) -> list[_Item]:
    first, last = items[needs], items[task]
    return [first, *(_Item(layer) for layer in range(first.layer + 1, last.layer)), last]


def _arrange(layers: list[list[_Item]], ways: Sequence[Sequence[_Item]]) -> None:
    """Order each layer by the middle of its neighbours, back and forth, then settle the heights."""
    before: dict[int, list[_Item]] = {}
    after: dict[int, list[_Item]] = {}
    for way in ways:
        for one, other in pairwise(way):
            before.setdefault(id(other), []).append(one)
            after.setdefault(id(one), []).append(other)
    for layer in layers:
        _stack(layer)
    for sweep in range(SWEEPS):
        near = after if sweep % 2 else before
        for layer in reversed(layers) if sweep % 2 else layers:
            wanted = {id(item): _middle(item, near.get(id(item), ())) for item in layer}
            layer.sort(key=lambda item, wanted=wanted: wanted[id(item)])  # type: ignore[misc]  # bound at once
            _stack(layer, wanted)
    top = min((item.y for layer in layers for item in layer), default=0.0)
    for layer in layers:
        for item in layer:
            item.y -= top


def _middle(item: _Item, near: Sequence[_Item]) -> float:
    return sum(each.middle for each in near) / len(near) if near else item.middle


def _stack(layer: Sequence[_Item], wanted: Mapping[int, float] | None = None) -> None:
    """Put the items of a layer below each other, as near to where they want to be as may be."""
    floor = float("-inf") if wanted else 0.0
    for item in layer:
        start = wanted[id(item)] - item.height / 2 if wanted else floor
        item.y = max(floor, start)
        floor = item.y + item.height + GAP
    if not wanted or not layer:
        return
    # Pushed down by those above: the whole layer moves up by half of that.
    drift = sum(item.y + item.height / 2 - wanted[id(item)] for item in layer) / len(layer)
    for item in layer:
        item.y -= drift


def _loose(tasks: Sequence[str], top: float) -> list[Box]:
    step_x, step_y = BOX[0] + 2 * GAP, BOX[1] + GAP
    return [
        Box(task, number % COLUMNS * step_x, top + number // COLUMNS * step_y)
        for number, task in enumerate(tasks)
    ]


def _left(layer: int) -> float:
    return layer * (BOX[0] + BETWEEN)


def _path(way: Sequence[_Item]) -> str:
    """Return the line: curves between layers, straight through each."""
    x, y = _left(way[0].layer) + BOX[0] + MARGIN, way[0].middle + MARGIN
    told = [f"M{x:.0f} {y:.1f}"]
    for item in way[1:]:
        left, middle = _left(item.layer) + MARGIN, item.middle + MARGIN
        end = left if not item.task else left - 1
        half = (x + end) / 2
        told.append(f"C{half:.0f} {y:.1f} {half:.0f} {middle:.1f} {end:.0f} {middle:.1f}")
        x, y = end, middle
        if not item.task:
            x = left + BOX[0]
            told.append(f"H{x:.0f}")
    return "".join(told)


def _around(first: _Item, last: _Item) -> str:
    """Return a line that leads back: out on the right of one, and in on the left of the other."""
    x, y = _left(first.layer) + BOX[0] + MARGIN, first.middle + MARGIN
    end, middle = _left(last.layer) + MARGIN - 1, last.middle + MARGIN
    return (
        f"M{x:.0f} {y:.1f}C{x + 60:.0f} {y:.1f} {end - 60:.0f} {middle:.1f} {end:.0f} {middle:.1f}"
    )
