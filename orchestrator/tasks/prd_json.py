"""`prd.json`: user stories with `passes`, as ralph and its relatives keep them. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from orchestrator.tasks.found import Edit, FoundTask, FoundTasks, TickEdits, line_at, numbered
from orchestrator.tasks.json_places import JsonNode, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FORM = "prd.json"
_LISTS = ("userStories", "user_stories", "stories", "tasks", "features", "items")
_MARKS = ("passes", "passed", "completed", "done")
_OVER: Mapping[str, str] = {
    **dict.fromkeys(("done", "complete", "completed", "closed", "passed", "passing"), "done"),
    **dict.fromkeys(("cancelled", "canceled", "skipped", "wontfix"), "cancelled"),
}
_WORDS = {"critical": 0.0, "highest": 0.0, "high": 1.0, "medium": 2.0, "low": 3.0, "lowest": 4.0}
_AFTER = ("dependsOn", "depends_on", "dependencies", "blockedBy", "blocked_by")
_OF_STORIES = {*_MARKS[:2], "acceptanceCriteria", "acceptance_criteria", "dependsOn", "steps"}
"""Members that a task of a plan does not have."""


def fits(name: str, text: str) -> bool:
    """Tell whether a file is one: it lists stories, or what it lists has their members."""
    if not name.endswith(".json"):
        return False
    found = _stories(parsed(text, name))
    if found is None:
        return False
    which, stories = found
    says_so = any(_OF_STORIES & each.members.keys() for each in stories.items)
    return which in _LISTS[:3] or says_so or name.endswith("prd.json")


def read(text: str, where: str) -> FoundTasks:
    """Return the stories."""
    root = parsed(text, where)
    found = _stories(root)
    if found is None:
        return FoundTasks(form=FORM, tasks=(), problems=(f"{where}: there is no list userStories",))
    stories = found[1].items
    problems = [
        f"{where}:{line_at(text, each.start)}: {wrong}"
        for each in stories
        if (wrong := _problem(each))
    ]
    good = [each for each in stories if not _problem(each)]
    named = any(each.texts(*_AFTER) for each in good)
    tasks = tuple(
        _task(node, key, line_at(text, node.start))
        for node, key in zip(good, _keys(good), strict=True)
    )
    heads = [root, *(each for each in root.members.values() if each.is_object)]
    branch = next((head.text("branchName", "branch_name") for head in heads if
                   head.text("branchName", "branch_name")), "")  # fmt: skip
    return FoundTasks(
        form=FORM, tasks=tasks, branch=branch, problems=tuple(problems), by_priority=not named
    )


def tick(text: str, key: str, when: str) -> TickEdits:
    """Return what sets `passes` of a story, or the member that stands for it there."""
    del when
    found = _stories(parsed(text, FORM))
    stories = [each for each in found[1].items if not _problem(each)] if found else []
    for node, its_key in zip(stories, _keys(stories), strict=True):
        if its_key == key:
            line = line_at(text, node.start)
            return TickEdits(line=line, edits=() if _over(node) == "done" else _mark(node, stories))
    return TickEdits()


def _stories(root: JsonNode) -> tuple[str, JsonNode] | None:
    """Return the list of stories and its name, also where one more object is around it."""
    if isinstance(root.value, list):
        return ("", root) if all(each.is_object for each in root.items) else None
    for node in (root, *(each for each in root.members.values() if each.is_object)):
        for name in _LISTS:
            listed = node.members.get(name)
            if listed is not None and isinstance(listed.value, list):
                return name, listed
    return None


def _problem(node: JsonNode) -> str:
    if not node.is_object:
        return 'a story is an object, such as {"id": "US-001", "title": "..."}'
    return "" if _title(node) else "a story without a title; give it one"


def _title(node: JsonNode) -> str:
    return node.text("title", "name", "description", "story")


def _keys(stories: Sequence[JsonNode]) -> list[str]:
    """Return the id of each story; where it has none, its text."""
    named = numbered("" if each.text("id", "storyId") else _title(each) for each in stories)
    return [node.text("id", "storyId") or key for node, key in zip(stories, named, strict=True)]


def _task(node: JsonNode, key: str, line: int) -> FoundTask:
    title = _title(node)
    said = [node.text("description"), node.text("notes")]
    return FoundTask(
        key=key,
        has_id=bool(node.text("id", "storyId")),
        title=title,
        line=line,
        description="\n\n".join(each for each in said if each and each != title),
        acceptance=node.texts("acceptanceCriteria", "acceptance_criteria", "criteria", "steps"),
        depends_on=node.texts(*_AFTER),
        priority=_priority(node),
        tags=node.texts("labels", "tags"),
        left_out=_over(node),
    )


def _priority(node: JsonNode) -> float | None:
    said = node.text("priority").lower()
    if said in _WORDS:
        return _WORDS[said]
    try:
        return float(said)
    except ValueError:
        return None


def _over(node: JsonNode) -> str:
    for name in _MARKS:
        mark = node.members.get(name)
        if mark is not None and isinstance(mark.value, bool):
            return "done" if mark.value else ""
    return _OVER.get(node.text("status").lower(), "")


def _mark(node: JsonNode, stories: Sequence[JsonNode]) -> tuple[Edit, ...]:
    for name in _MARKS:
        mark = node.members.get(name)
        if mark is not None and isinstance(mark.value, bool):
            return (Edit(mark.start, mark.end, "true"),)
    status = node.members.get("status")
    if status is not None and isinstance(status.value, str):
        # In the word that the list itself has for it.
        words = (each.text("status") for each in stories if _over(each) == "done")
        word = next(filter(None, words), "done")
        return (Edit(status.start, status.end, json.dumps(word)),)
    last = list(node.members.values())[-1]
    return (Edit(last.end, last.end, ', "passes": true'),)
