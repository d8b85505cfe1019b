"""The issues of beads, one JSON object per line, as `bd` exports them. Pure."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchestrator.tasks.found import Edit, FoundTask, FoundTasks, TickEdits
from orchestrator.tasks.json_places import JsonNode, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

FORM = "issues of beads"
_OVER = {"closed": "done", "tombstone": "deleted", "deferred": "deferred", "pinned": "pinned"}
_WAITS = ("blocks", "conditional-blocks", "waits-for")
_LISTS = ("labels", "dependencies")
_NO_WORK = ("epic", "molecule", "message", "merge-request", "gate", "event", "agent")


def fits(name: str, text: str) -> bool:
    """Tell whether a file is one."""
    del text
    return name.endswith(".jsonl")


def read(text: str, where: str) -> FoundTasks:
    """Return the issues; what only holds others together is no work of its own."""
    tasks, problems = [], []
    for number, line in _lines(text):
        try:
            issue = json.loads(line)
        except ValueError as problem:
            problems.append(f"{where}:{number}: no JSON: {problem}")
            continue
        if not isinstance(issue, dict) or not issue.get("id") or not issue.get("title"):
            problems.append(f"{where}:{number}: an issue needs an id and a title")
        elif wrong := [each for each in _LISTS if not isinstance(issue.get(each) or [], list)]:
            problems.append(f"{where}:{number}: `{wrong[0]}` is no list")
        elif issue.get("issue_type") not in _NO_WORK:
            tasks.append(_task(issue, number))
    # What is not in the file, such as an epic, is nothing to wait for.
    known = {task.key for task in tasks}
    tasks = [_without_others(task, known) for task in tasks]
    return FoundTasks(form=FORM, tasks=tuple(tasks), problems=tuple(problems))


def tick(text: str, key: str, when: str) -> TickEdits:
    """Return what closes an issue, as `bd` itself would write it."""
    at = 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            node = parsed(line, FORM)
            if node.text("id") == key:
                return TickEdits(line=number, edits=tuple(_closing(node, at, when)))
        at += len(line) + 1
    return TickEdits()


def _closing(node: JsonNode, at: int, when: str) -> Iterator[Edit]:
    status = node.text("status")
    if status in _OVER:
        return
    last = max(each.end for each in node.members.values())
    for name, value in (("status", "closed"), ("updated_at", when), ("closed_at", when)):
        present = node.members.get(name)
        if present is not None:
            yield Edit(at + present.start, at + present.end, json.dumps(value))
        else:
            yield Edit(at + last, at + last, f',"{name}":{json.dumps(value)}')


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if line.strip():
            yield number, line


def _task(issue: dict[str, Any], line: int) -> FoundTask:
    said = [str(issue.get(name) or "") for name in ("description", "design", "notes")]
    reference = str(issue.get("external_ref") or "")
    if reference:
        said.append(f"See {reference}.")
    criteria = str(issue.get("acceptance_criteria") or "")
    priority = issue.get("priority")
    return FoundTask(
        key=str(issue["id"]),
        title=str(issue["title"]),
        line=line,
        description="\n\n".join(each for each in said if each),
        acceptance=tuple(
            bare for each in criteria.splitlines() if (bare := each.strip().lstrip("-*[] ").strip())
        ),
        depends_on=tuple(_blockers(issue)),
        priority=float(priority) if isinstance(priority, int) else None,
        tags=tuple(str(each) for each in issue.get("labels") or ()),
        left_out=_OVER.get(str(issue.get("status")), ""),
    )


def _blockers(issue: dict[str, Any]) -> Iterator[str]:
    for each in issue.get("dependencies") or ():
        if isinstance(each, dict) and each.get("type", "blocks") in _WAITS:
            yield str(each.get("depends_on_id", ""))


def _without_others(task: FoundTask, known: set[str]) -> FoundTask:
    return replace(task, depends_on=tuple(each for each in task.depends_on if each in known))
