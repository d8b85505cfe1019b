"""What a pull request says: a title and a text from the task and the agent's words. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ci.events import without_commands
from lifecycle.judging.review_request import OPINION
from lifecycle.machine.opinion import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lifecycle.plan import Task

LONGEST_TITLE = 120
LONGEST_TEMPLATE = 16 * 1024
_PLACE = re.compile(r"\{(summary|title|task|issue)\}")


def title_of(task: Task, summary: str) -> str:
    """Return the title of the task, else the first line of the agent's words."""
    return task.title or summary.split("\n", 1)[0][:LONGEST_TITLE] or task.id


def body_of(task: Task, summary: str, template: str = "", issue: str = "", review: str = "") -> str:
    """Return the agent's words in their template, what a reviewer said, and which issue is closed.

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
    if review:
        text = f"{text}\n\n{without_commands(review)}"
    if closes and closes.lower() not in text.lower():
        text = f"{text}\n\n{closes}"
    return text.strip()


def review_text(facts: Mapping[str, Any], head: str) -> str:
    """Return what a reviewer said of this very commit; empty if of none or another."""
    told = facts.get(OPINION) or {}
    if not head or told.get("head") != head:
        return ""
    verdict = "approved" if told["approves"] else "did not approve"
    lines = [
        f"Second opinion: {told['by']} {verdict} {head[:12]}. {_flat(told['summary'])}".rstrip()
    ]
    lines += [f"- {Finding(**each).where}: {_flat(each['text'])}" for each in told["findings"]]
    return "\n".join(lines)


def _flat(text: str) -> str:
    """Keep a finding in its line, and from being taken for markup or a mention."""
    return " ".join(text.split()).replace("@", "@\u200b")


def _issue(ref: str) -> str:
    return f"#{ref}" if ref.isdigit() else ref
