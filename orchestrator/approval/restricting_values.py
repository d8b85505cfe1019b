"""The values in files that restrict agents, each by file and name, to be compared one by one.

Pure. Such a value is called a cell and named `FILE#NAME`, with dots between the names of tables in
one another; of a file that a setting names, all of it is one cell (`FILE#`). None stands for a
value that is not there.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.approval.held_settings import FREE_OF_TASK, is_held

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MARK = "#"
WHOLE = "*"
"""Stands for the name in a change after which the content of a file is unknown."""
SETTINGS_TABLES: Mapping[str, tuple[str, ...]] = {
    "loopwright.toml": (),
    "pyproject.toml": ("tool", "loopwright"),
}
"""The settings files of a repository, and the table in each."""
PLAN_FILES = ("loopwright.plan.toml", "loopwright.plan.json")
"""Plans that `up` takes by itself."""
_MOST_LINES = 2000
_MOST_CELLS = 300

Cells = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """What a commit of an agent did to one cell."""

    cell: str
    before: Any
    after: Any
    agent_id: str = ""
    settled: bool = False
    """Whether a person has approved it: of a whole file; a value shows that itself."""


def name_of(cell: str) -> tuple[str, str]:
    """Return file and name of a cell."""
    file, _, name = cell.rpartition(MARK)
    return file, name


def cells_of(file: str, content: bytes | None) -> Cells | None:
    """Return what a settings file or plan says of what holds agents; None when it is unreadable."""
    try:
        values = _parsed(file, content)
    except ValueError:
        return None
    for name in SETTINGS_TABLES.get(file, ()):
        values = values.get(name, {})
        if not isinstance(values, dict):
            return None
    return setting_cells(file, values) if file in SETTINGS_TABLES else plan_cells(file, values)


def content_cells(file: str, contents: Iterable[tuple[str, bytes]]) -> Cells:
    """Return a file, or a folder of files, as one cell: digests of lines, which hold no secret."""
    found = list(contents)
    lines = [line.rstrip() for _, content in found for line in content.splitlines()]
    if len(found) != 1 or found[0][0] != file or len(lines) > _MOST_LINES:
        lines = [f"{path}\0".encode(errors="surrogateescape") + each for path, each in found]
    return {file + MARK: [hashlib.sha256(line).hexdigest()[:16] for line in lines if line]}


def setting_cells(file: str, values: Mapping[str, Any]) -> Cells:
    """Return the settings of a file that hold agents."""
    return {file + MARK + name: plain(values[name]) for name in values if is_held(name)}


def plan_cells(file: str, data: Mapping[str, Any]) -> Cells:
    """Return what of a plan holds agents: all but its tasks and their words."""
    tasks = {
        str(task["id"]): {name: task[name] for name in task if name not in FREE_OF_TASK}
        for task in _tasks(data)
    }
    return {file + MARK + name: plain(value) for name, value in _flat({**data, "tasks": tasks})}


def plan_with(data: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan in which these cells have other values; None takes one out."""
    made: dict[str, Any] = json.loads(_text(dict(data)))
    tasks = {str(task["id"]): task for task in _tasks(made)}
    # Remove first: what is added may stand in its place.
    for cell, value in sorted(kept.items(), key=lambda each: each[1] is not None):
        first, *path = (_unquoted(name) for name in name_of(cell)[1].split("."))
        if first != "tasks":
            _put(made, [first, *path], value)
        elif path[0] in tasks:
            _put(tasks[path[0]], path[1:], value)
    return made


def differing(approved: Mapping[str, Any], present: Mapping[str, Any]) -> list[str]:
    """Return the cells that are not as they were approved."""
    both = dict.fromkeys((*approved, *present))
    return [cell for cell in both if not same(approved.get(cell), present.get(cell))]


def proposed(
    before: Cells | None, after: Cells | None, agent_id: str
) -> tuple[ProposedChange, ...] | None:
    """Return what a change of a file did to its cells; None if it changed too many.

    A file that cannot be read counts as empty, so what follows it counts as new.
    """
    if after is None:
        return ()
    old = before or {}
    cells = differing(old, after)
    if len(cells) > _MOST_CELLS:
        return None
    return tuple(ProposedChange(cell, old.get(cell), after.get(cell), agent_id) for cell in cells)


def whole(file: str, blob: str, agent_id: str) -> ProposedChange:
    """Return the proposal that stands for the whole content of a file."""
    return ProposedChange(file + MARK + WHOLE, None, blob, agent_id)


def origins_of(
    cell: str, approved: Any, present: Any, proposals: Iterable[ProposedChange]
) -> list[ProposedChange]:
    """Return the proposals that a changed cell comes from; none if a person changed it."""
    any_of_file = name_of(cell)[0] + MARK + WHOLE
    return [
        each
        for each in proposals
        if not each.settled
        and (each.cell == any_of_file or (each.cell == cell and takes_up(each, approved, present)))
    ]


def takes_up(proposal: ProposedChange, approved: Any, present: Any) -> bool:
    """Tell whether a value is what an agent proposed, or contains words of that."""
    if same(present, proposal.after):
        return True
    texts = (approved, present, proposal.before, proposal.after)
    approved_, present_, before, after = (Counter(_words(each)) for each in texts)
    added = (present_ - approved_) & (after - before)
    # A value that was rewritten as a whole removed nothing: nothing of the proposal is left.
    taken_away = (approved_ - present_) & (before - after) if present_ & after else None
    return bool(added or taken_away)


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are alike; 1 and 1.0 are not."""
    return _text(one) == _text(other)


def plain(value: Any) -> Any:
    """Return a value as JSON holds it."""
    return json.loads(_text(value))


def _text(value: Any) -> str:
    return json.dumps(value, default=str, sort_keys=True)


def _words(value: Any) -> list[str]:
    """Return the words of a text, and the items of a list; numbers and switches have none."""
    if isinstance(value, list):
        return [word for each in value for word in (_text(each), *_words(each))]
    return value.split() if isinstance(value, str) else []


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Return the values of tables in tables, by their names with dots between."""
    for name, value in values.items():
        place = before + _quoted(str(name))
        if isinstance(value, dict):
            yield from _flat(value, f"{place}.")
        else:
            yield place, value


def _quoted(name: str) -> str:
    return name.replace("%", "%25").replace(".", "%2E").replace(MARK, "%23")


def _unquoted(name: str) -> str:
    return name.replace("%23", MARK).replace("%2E", ".").replace("%25", "%")


def _parsed(file: str, content: bytes | None) -> dict[str, Any]:
    text = (content or b"").decode("utf-8-sig").replace("\r\n", "\n")
    if file.endswith(".json"):
        data = json.loads(text or "{}")
        return data if isinstance(data, dict) else {}
    return tomllib.loads(text)


def _tasks(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    tasks = data.get("tasks")
    listed = tasks if isinstance(tasks, list) else []
    return [task for task in listed if isinstance(task, dict) and "id" in task]


def _put(table: dict[str, Any], path: list[str], value: Any) -> None:
    """Set a value in tables in one another; None takes it out, and tables that are empty then."""
    name, *rest = path
    if rest:
        inner = table.get(name)
        inner = table[name] = inner if isinstance(inner, dict) else {}
        _put(inner, rest, value)
        value = inner or None
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value
