"""A draft as a person reads it before saying yes: its tasks, what waits for what, and its gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.terminal.text import one_line, table, wrapped

if TYPE_CHECKING:
    from collections.abc import Collection

    from lifecycle.plan import Plan
    from orchestrator.drafting.check import CheckedDraft

HEADS = ("ID", "TITLE", "DEPENDS ON")
_SHORTEST, _REST = 12, 26
"""Columns that a title has at least, and those that are kept for what it depends on."""


def shown(draft: CheckedDraft, general: Collection[str], width: int) -> str:
    """Return the table, the gates, and what is wrong, in lines of at most `width` columns."""
    parts = []
    if draft.plan is not None:
        longest = max(len(task.id) for task in draft.plan.tasks)
        room = max(_SHORTEST, width - longest - _REST) if width else 0
        rows = [
            (
                task.id,
                one_line(task.title or task.description, room),
                ", ".join(task.dependencies) or "-",
            )
            for task in draft.plan.tasks
        ]
        parts += [table(HEADS, rows, width=width), ""]
        parts += _lines([f"verify: {each}" for each in _gates(draft.plan, general)], width)
    parts += _lines([f"wrong: {each}" for each in draft.problems], width)
    return "\n".join(parts)


def _gates(plan: Plan, general: Collection[str]) -> list[str]:
    """Return each verify command with the tasks that it is for."""
    tasks: dict[str, list[str]] = {}
    for task in plan.tasks:
        for command in task.verify or general:
            tasks.setdefault(command, []).append(task.id)
    lines = [
        f"{command}   ({'all' if len(ids) == len(plan.tasks) else ', '.join(ids)})"
        for command, ids in tasks.items()
    ]
    without = [] if general else [task.id for task in plan.tasks if not task.verify]
    if without:
        lines.append(f"nothing   ({', '.join(without)}: no command says whether it is done)")
    return lines


def _lines(texts: Collection[str], width: int) -> list[str]:
    flat = [one_line(text) for text in texts]
    return [line for text in flat for line in (wrapped(text, width) if width else [text])]
