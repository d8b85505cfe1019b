"""Files as cells: each value that holds an agent, by its file and name, to be compared one by one.

Pure. A cell is named `FILE#NAME`; of a file that is no settings file and no plan, all of it is one
cell (`FILE#`). None stands for a value that is not there.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lifecycle.heldsettings import is_held

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MARK = "#"
WHOLE = "*"
"""Stands for the name in a change after which nobody can say what a file holds."""
SETTINGS_TABLES: Mapping[str, tuple[str, ...]] = {
    "loopwright.toml": (),
    "pyproject.toml": ("tool", "loopwright"),
}
"""The settings files of a repository, and the table in each."""
_OF_PLAN = ("budget", "name")
_OF_TASK = ("verify", "budget", "agent", "base")
_MOST_LINES = 2000
_MOST_CELLS = 300

Cells = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a commit of an agent did to one cell."""

    cell: str
    before: Any
    after: Any
    agent_id: str = ""


def name_of(cell: str) -> tuple[str, str]:
    """Return file and name of a cell."""
    file, _, name = cell.rpartition(MARK)
    return file, name


def cells_of(file: str, content: bytes | None, *, plan: bool = False) -> Cells | None:
    """Return what a file says of what holds agents; None when it cannot be read as it should."""
    if file in SETTINGS_TABLES or plan:
        try:
            values = _parsed(file, content)
        except (ValueError, RecursionError):
            return None
        for name in SETTINGS_TABLES.get(file, ()):
            values = values.get(name, {})
            if not isinstance(values, dict):
                return None
        return plan_cells(file, values) if plan else setting_cells(file, values)
    return {file + MARK: None if content is None else _lines(content)}


def setting_cells(file: str, values: Mapping[str, Any]) -> Cells:
    """Return the settings of a file that hold agents."""
    return {f"{file}{MARK}{name}": plain(values[name]) for name in values if is_held(name)}


def plan_cells(file: str, data: Mapping[str, Any]) -> Cells:
    """Return what of a plan holds agents: their programs, and what judges and limits tasks."""
    agents = data.get("agents")
    found = {name: data[name] for name in _OF_PLAN if name in data}
    if isinstance(agents, dict):
        found |= {f"agents.{name}": body for name, body in agents.items()}
    for task in _tasks(data):
        found |= {f"tasks.{task['id']}.{name}": task[name] for name in _OF_TASK if name in task}
    return {f"{file}{MARK}{name}": plain(value) for name, value in found.items()}


def plan_with(data: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan in which these cells have other values; None takes one out."""
    made = json.loads(_text(dict(data)))
    for cell, value in kept.items():
        first, _, rest = name_of(cell)[1].partition(".")
        if first == "agents":
            _put(made.setdefault("agents", {}), rest, value)
        elif first == "tasks":
            task_id, _, name = rest.rpartition(".")
            for task in _tasks(made):
                if str(task["id"]) == task_id:
                    _put(task, name, value)
        else:
            _put(made, first, value)
    return {name: value for name, value in made.items() if name != "agents" or value}


def differing(approved: Mapping[str, Any], present: Mapping[str, Any]) -> list[str]:
    """Return the cells that are not as they were approved."""
    both = dict.fromkeys((*approved, *present))
    return [cell for cell in both if not same(approved.get(cell), present.get(cell))]


def proposed(
    file: str, before: Cells | None, after: Cells | None, agent_id: str
) -> tuple[Proposal, ...]:
    """Return what a change of a file did to its cells; a side that cannot be read is None."""
    if after is None:
        return (Proposal(file + MARK + WHOLE, None, None, agent_id),)
    old = before or {}
    cells = differing(old, after)
    if len(cells) > _MOST_CELLS:
        return (Proposal(file + MARK + WHOLE, None, None, agent_id),)
    return tuple(Proposal(cell, old.get(cell), after.get(cell), agent_id) for cell in cells)


def author_of(cell: str, approved: Any, present: Any, proposals: Iterable[Proposal]) -> str | None:
    """Return the agent that a changed cell came from; None if a person changed it."""
    whole = name_of(cell)[0] + MARK + WHOLE
    for each in proposals:
        if each.cell == whole or (each.cell == cell and _takes_up(each, approved, present)):
            return each.agent_id
    return None


def _takes_up(proposal: Proposal, approved: Any, present: Any) -> bool:
    """Tell whether a value is what an agent proposed, or a list has taken up a part of that."""
    if same(present, proposal.after):
        return True
    lists = [_list(each) for each in (approved, present, proposal.before, proposal.after)]
    if any(each is None for each in lists[1::2]):
        return False
    approved_, present_, before, after = (Counter(each or ()) for each in lists)
    return bool(
        (present_ - approved_) & (after - before) or (approved_ - present_) & (before - after)
    )


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are alike; 1 and 1.0 are not."""
    return _text(one) == _text(other)


def plain(value: Any) -> Any:
    """Return a value as JSON holds it."""
    return json.loads(_text(value))


def _text(value: Any) -> str:
    return json.dumps(value, default=str, sort_keys=True)


def _list(value: Any) -> list[str] | None:
    if isinstance(value, str) and "\n" in value:
        value = value.splitlines()
    return [_text(each) for each in value] if isinstance(value, list) else None


def _lines(content: bytes) -> list[str] | str:
    """Return a file as the digests of its lines: they tell two texts apart and hold no secret."""
    lines = [line.rstrip() for line in content.splitlines()]
    if len(lines) > _MOST_LINES:
        return hashlib.sha256(content).hexdigest()
    return [hashlib.sha256(line).hexdigest()[:16] for line in lines if line]


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


def _put(table: Any, name: str, value: Any) -> None:
    if not isinstance(table, dict):
        return
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value
