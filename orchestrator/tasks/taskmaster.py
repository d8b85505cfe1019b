"""`tasks.json` of Taskmaster: tasks with details, subtasks and a status, also under tags. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.tasks.found import Edit, FoundTask, FoundTasks, TickEdits, line_at
from orchestrator.tasks.json_places import JsonNode, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

FORM = "Taskmaster's tasks.json"
MASTER = "master"
_DONE, _OVER = ("done", "completed"), {"cancelled": "cancelled", "deferred": "deferred"}
_OWN = {"testStrategy", "subtasks", "details", "complexityScore"}
_PRIORITIES = {"critical": 0.0, "high": 1.0, "medium": 2.0, "low": 3.0}


def fits(name: str, text: str) -> bool:
    """Tell whether a file is one: its tasks have members that only these have."""
    if not name.endswith(".json"):
        return False
    lists = [tasks for _, tasks in _lists(parsed(text, name))]
    return any(
        _OWN & each.members.keys() or ("status" in each.members and "passes" not in each.members
                                       and isinstance(each.value.get("id"), int))
        for tasks in lists for each in tasks.items
    )  # fmt: skip


def read(text: str, where: str) -> FoundTasks:
    """Return the tasks; those of several tags have the tag before their ids."""
    tasks, problems = [], []
    for tag, listed in _lists(parsed(text, where)):
        for node in listed.items:
            line = line_at(text, node.start)
            if not node.is_object or not node.text("id") or not node.text("title"):
                problems.append(f"{where}:{line}: a task needs an id and a title")
            else:
                tasks.append(_task(node, tag, line))
    return FoundTasks(form=FORM, tasks=tuple(tasks), problems=tuple(problems))


def tick(text: str, key: str, when: str) -> TickEdits:
    """Return what sets the status of a task and of its subtasks to done."""
    del when
    for tag, listed in _lists(parsed(text, FORM)):
        for node in listed.items:
            if node.is_object and tag + node.text("id") == key:
                edits = [edit for each in (node, *_subtasks(node)) for edit in _done(each)]
                return TickEdits(line=line_at(text, node.start), edits=tuple(edits))
    return TickEdits()


def _lists(root: JsonNode) -> Iterator[tuple[str, JsonNode]]:
    """Yield each list of tasks, with what stands before its ids: nothing for the main one."""
    tasks = root.members.get("tasks")
    if tasks is not None and isinstance(tasks.value, list):
        yield "", tasks
        return
    for tag, node in root.members.items():
        inner = node.members.get("tasks")
        if inner is not None and isinstance(inner.value, list):
            yield ("" if tag == MASTER or len(root.members) == 1 else f"{tag}-"), inner


def _subtasks(node: JsonNode) -> list[JsonNode]:
    listed = node.members.get("subtasks")
    return [each for each in listed.items if each.is_object] if listed is not None else []


def _task(node: JsonNode, tag: str, line: int) -> FoundTask:
    status = node.text("status").lower()
    said = [node.text("description"), node.text("details")]
    steps = tuple(
        ": ".join(each for each in (step.text("title"), step.text("description")) if each)
        for step in _subtasks(node)
        if step.text("status").lower() not in {*_DONE, *_OVER}
    )
    tested = node.text("testStrategy")
    return FoundTask(
        key=tag + node.text("id"),
        title=node.text("title"),
        line=line,
        description="\n\n".join(each for each in said if each),
        acceptance=(*steps, *((tested,) if tested else ())),
        # A task waits for all of another one, also where one of its subtasks is named.
        depends_on=tuple(tag + each.partition(".")[0] for each in node.texts("dependencies")),
        priority=_PRIORITIES.get(node.text("priority").lower()),
        left_out="done" if status in _DONE else _OVER.get(status, ""),
    )


def _done(node: JsonNode) -> Iterator[Edit]:
    status = node.members.get("status")
    if status is None:
        last = list(node.members.values())[-1]
        yield Edit(last.end, last.end, ', "status": "done"')
    elif str(status.value).lower() not in {*_DONE, "cancelled"}:
        yield Edit(status.start, status.end, '"done"')
