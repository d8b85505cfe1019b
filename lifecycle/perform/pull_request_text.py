"""What a pull request says: a title and a text from the task and the agent's words. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci.events import without_commands

if TYPE_CHECKING:
    from lifecycle.plan import Task

LONGEST_TITLE = 120
LONGEST_TEMPLATE = 16 * 1024
_PLACE = re.compile(r"\{(summary|title|task|issue)\}")


def title_of(task: Task, summary: str) -> str:
    """Return the title of the task, else the first line of the agent's words."""
    return task.title or summary.split("\n", 1)[0][:LONGEST_TITLE] or task.id


def body_of(task: Task, summary: str, template: str = "", issue: str = "") -> str:
    """Return the agent's words in their template, and which issue is closed by the merge.

    A command (`/merge`) is one of the account that writes it: the template may hold some, the agent
    gives none.
    """
    summary = without_commands(summary)
    closes = f"Closes {issue or _issue(task.issue)}" if task.issue else ""
    text = summary
    if template:
        values = {"summary": summary, "title": task.title, "task": task.id, "issue": closes}
        text = _PLACE.sub(lambda place: values[place[1]], template)
        if "{summary}" not in template:
            text = f"{summary}\n\n{text}"
    if closes and closes.lower() not in text.lower():
        text = f"{text}\n\n{closes}"
    return text.strip()


def _issue(ref: str) -> str:
    return f"#{ref}" if ref.isdigit() else ref
