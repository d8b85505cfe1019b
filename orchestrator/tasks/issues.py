"""Issues of a forge as tasks: those of a label, of some numbers, or that a search finds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci.errors import CIError
from ci.forge.protocol import IssueQuery
from lifecycle.errors import PlanError
from orchestrator.tasks.found import FoundTask, FoundTasks

if TYPE_CHECKING:
    from ci.forge.protocol import Forge, ForgeIssue

MOST = 500
"""Issues that are read at once."""
_AFTER = re.compile(
    r"\b(?:depends on|blocked by)\b:?[ \t]*(?P<ids>#\d+(?:(?:[ \t]*,[ \t]*|[ \t]+and[ \t]+)#\d+)*)",
    re.IGNORECASE,
)
_PRIORITY = re.compile(r"(?:priority|prio)\W*(?P<word>\w+)|p(?P<number>[0-4])", re.IGNORECASE)
_WORDS = {"critical": 0.0, "urgent": 0.0, "highest": 0.0, "high": 1.0, "medium": 2.0, "normal": 2.0,
          "low": 3.0, "lowest": 4.0}  # fmt: skip


def query_of(forge: str, rest: str) -> IssueQuery:
    """Read what follows `github:`; PlanError says which forms there are."""
    name, equals, value = rest.partition("=")
    value = value.strip()
    if equals and value and name == "label":
        return IssueQuery(labels=tuple(filter(None, map(str.strip, value.split(",")))), most=MOST)
    if equals and value and name == "search":
        return IssueQuery(search=value, most=MOST)
    numbers = [each.strip().removeprefix("#") for each in rest.split(",")]
    if all(each.isdigit() and int(each) for each in numbers):
        return IssueQuery(numbers=tuple(dict.fromkeys(map(int, numbers))), most=MOST)
    raise PlanError(
        f"{forge}:{rest} names no issues: write {forge}:label=NAME (several with commas: all of "
        f"them), {forge}:12,13 or {forge}:search=WORDS"
    )


async def read_issues(forge: Forge, query: IssueQuery) -> tuple[FoundTasks, str]:
    """Return the issues, and the repository that they are of."""
    if forge.issues is None:
        raise PlanError(f"{forge.place} has no issues")
    try:
        listed = await forge.issues.find(query)
    except CIError as problem:
        raise PlanError(f"the issues of {forge.place} cannot be read: {problem}") from problem
    if len(listed) >= MOST:
        raise PlanError(f"there are {MOST} issues and more of that kind: name fewer of them")
    numbers = {each.number for each in listed}
    tasks = tuple(_task(each, numbers) for each in sorted(listed, key=lambda one: one.number))
    if not tasks:
        raise PlanError(f"{forge.place} has no open issue of that kind")
    return FoundTasks(form=f"issues of {forge.place}", tasks=tasks), forge.place


def _task(issue: ForgeIssue, known: set[int]) -> FoundTask:
    after = [int(n) for each in _AFTER.finditer(issue.body) for n in re.findall(r"\d+", each[0])]
    ranks = [rank for label in issue.labels if (rank := _rank(label)) is not None]
    return FoundTask(
        key=f"issue-{issue.number}",
        title=issue.title or f"Issue {issue.number}",
        description=issue.body.replace("\r\n", "\n").strip(),
        depends_on=tuple(
            f"issue-{number}"
            for number in dict.fromkeys(after)
            if number in known and number != issue.number
        ),
        priority=min(ranks, default=None),
        tags=issue.labels,
        issue=str(issue.number),
        left_out="" if issue.open else "closed",
    )


def _rank(label: str) -> float | None:
    found = _PRIORITY.fullmatch(label.strip())
    if found is None:
        return None
    if found["number"] or found["word"].lower().strip("p").isdigit():
        return float(found["number"] or found["word"].lower().strip("p"))
    return _WORDS.get(found["word"].lower())
