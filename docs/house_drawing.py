# ruff: noqa: INP001  # a script beside the pages, no package
"""Writes into architecture.md the loop of the example, and the rooms with who imports whom.

    python docs/house_drawing.py

An arrow stands for direct imports, those for types included. One that other arrows lead along
already is left out, so a room may import all that lies below it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import grimp

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "why" / "architecture.md"
EXAMPLE = ROOT / "examples" / "tiny_loop.py"
PACKAGES = ("lifecycle", "runtime", "ci", "communication", "templates", "orchestrator")
WITH_ROOMS = ("orchestrator", "lifecycle", "runtime", "ci")


def loop() -> str:
    """Return the function of the example that is the loop."""
    text = EXAMPLE.read_text("utf-8")
    found = re.search(
        r"^async def main.*?(?=^\S.*?^async def|\n\n\n)", text, re.MULTILINE | re.DOTALL
    )
    if found is None:
        raise SystemExit(f"{EXAMPLE} has no function main; quote another one in {__file__}")
    return f"```python\n{found[0].rstrip()}\n```\n"


def house(graph: grimp.ImportGraph) -> str:
    """Return the packages, and the rooms of each, as Mermaid flowcharts."""
    whole = _drawn("the packages", PACKAGES, graph)
    rooms = (
        _drawn(
            f"`{package}/`",
            sorted(each for each in graph.find_children(package) if graph.find_children(each)),
            graph,
        )
        for package in WITH_ROOMS
    )
    return "\n".join((whole, *rooms))


def _drawn(title: str, rooms: Iterable[str], graph: grimp.ImportGraph) -> str:
    names = tuple(rooms)
    below = {
        room: {
            other
            for other in names
            if other != room
            and graph.direct_import_exists(importer=room, imported=other, as_packages=True)
        }
        for room in names
    }
    arrows = _needed(below)
    loners = [room for room in names if not any(room in arrow for arrow in arrows)]
    lines = [
        *(f"    {_last(one)} --> {_last(other)}" for one, other in arrows),
        *(f"    {_last(room)}" for room in loners),
    ]
    return "\n".join((f"{title}:\n", "```mermaid", "flowchart TD", *lines, "```", ""))


def _needed(below: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return the arrows without those that only shorten a way along others."""
    reached = {room: _reached(room, below) for room in below}
    return [
        (room, other)
        for room in below
        for other in sorted(below[room])
        if not any(
            other in reached[by] and room not in reached[by] and by not in reached[other]
            for by in below[room] - {other}
        )
    ]


def _reached(room: str, below: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    ahead = [room]
    while ahead:
        fresh = below[ahead.pop()] - found
        found |= fresh
        ahead += fresh
    return found


def _last(module: str) -> str:
    return module.rpartition(".")[2]


def written(page: str) -> str:
    """Return the page with its generated parts as they should be."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    for name, text in (("loop", loop()), ("house", house(graph))):
        begin, end = (
            f"<!-- {name}: written by docs/house_drawing.py -->\n",
            f"<!-- end of {name} -->",
        )
        head, rest = page.split(begin)
        _, tail = rest.split(end)
        page = f"{head}{begin}\n{text}\n{end}{tail}"
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
