"""Writes tasks into a plan file: a new one, or the end of one that is there.

What is in the plan already is not added again. Nothing else in a TOML file changes by a byte.
"""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

from lifecycle.errors import PlanError
from lifecycle.plan import Plan, Task
from orchestrator.config.plans import load_plan
from runtime.private_files import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_FIELDS = ("id", "title", "description", "dependencies", "acceptance", "verify", "setup", "tags",
           "agent", "type", "issue", "base", "max_retries", "label", "source")  # fmt: skip
_MULTILINE = ("description",)


def not_there(path: Path, tasks: Sequence[Task]) -> tuple[tuple[Task, ...], tuple[str, ...]]:
    """Return the tasks that a plan lacks, with ids that are free in it; and what it has of them.

    A task is the same where it came from the same place, or is about the same issue.
    """
    plan = load_plan(path)
    by_source = {each.source: each.id for each in plan.tasks if each.source}
    by_issue = {each.issue: each.id for each in plan.tasks if each.issue}
    taken = {each.id for each in plan.tasks}
    names: dict[str, str] = {}
    fresh: list[Task] = []
    known: list[str] = []
    for task in tasks:
        there = by_source.get(task.source) or by_issue.get(task.issue)
        if there is None and not task.source and task.id in taken:
            there = task.id
        if there is not None:
            names[task.id] = there
            known.append(there)
            continue
        number, name = 2, task.id
        while name in taken:
            name, number = f"{task.id}-{number}", number + 1
        names[task.id] = name
        taken.add(name)
        fresh.append(task)
    renamed = [_renamed(task, names) for task in fresh]
    require_agents(path, renamed, plan)
    try:
        Plan(tasks=[*plan.tasks, *renamed])
    except ValueError as problem:
        raise PlanError(f"{path} cannot take these tasks: {problem}") from problem
    return tuple(renamed), tuple(known)


def require_agents(path: Path, tasks: Sequence[Task], plan: Plan) -> None:
    """Refuse tasks that name agents, or types of agents, which their plan does not have."""
    for task in tasks:
        for name, known in ((task.agent, plan.agents), (task.type, plan.types)):
            if name is not None and name not in known:
                raise PlanError(
                    f"task {task.id} names {name!r}, which {path} does not define: define it "
                    "there first and use --append, or run the source as it is: loopwright up SOURCE"
                )


def write_plan(path: Path, tasks: Sequence[Task], *, head: Sequence[str], append: bool) -> None:
    """Write the plan, or add to the one that is there; the file is replaced in one step."""
    old = path.read_bytes().decode() if append else ""  # with its ends of lines
    if path.suffix == ".json":
        data = json.loads(old) if append else {}
        data["tasks"] = [*data.get("tasks", ()), *map(form_of_task, tasks)]
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    else:
        lines = [f"# {line}\n" for line in head]
        gap = "\n" if old.strip() else ""
        text = f"{old}{'' if old.endswith(chr(10)) or not old else chr(10)}{gap}"
        text += "".join(lines) + "\n" * bool(lines) + "\n".join(map(_toml_task, tasks))
        _require_readable(path, text, append=append)
    write_whole(path, text.encode())


def form_of_task(task: Task) -> dict[str, Any]:
    """Return what a plan file has of a task: nothing that is as it would be anyway."""
    whole = task.model_dump(mode="json", exclude_defaults=True)
    return {name: whole[name] for name in _FIELDS if name in whole}


def _renamed(task: Task, names: dict[str, str]) -> Task:
    after = tuple(dict.fromkeys(names.get(each, each) for each in task.dependencies))
    return task.model_copy(update={"id": names[task.id], "dependencies": after})


def _require_readable(path: Path, text: str, *, append: bool) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        if not append:
            raise
        raise PlanError(
            f"{path} holds its tasks as one list (tasks = [...]), to which nothing can be added at "
            "the end: write each as a [[tasks]] table, or give another file with --output"
        ) from problem


def _toml_task(task: Task) -> str:
    rows = [f"{name} = {_toml(name, value)}\n" for name, value in form_of_task(task).items()]
    return "[[tasks]]\n" + "".join(rows)


def _toml(name: str, value: Any) -> str:
    if isinstance(value, list):
        if len(value) > 1 and sum(map(len, map(str, value))) > 60:  # noqa: PLR2004  # a line's worth
            return "[\n" + "".join(f"  {_toml('', each)},\n" for each in value) + "]"
        return f"[{', '.join(_toml('', each) for each in value)}]"
    if isinstance(value, int):
        return str(value)
    text = str(value)
    if name in _MULTILINE and "\n" in text:
        return f'"""\n{_escaped(text, quotes=False)}"""'
    return f'"{_escaped(text, quotes=True)}"'


def _escaped(text: str, *, quotes: bool) -> str:
    """Escape what a string of TOML must not have as it is."""
    return "".join(_char(char, quotes=quotes) for char in text)


def _char(char: str, *, quotes: bool) -> str:
    if char in '\\"':
        return f"\\{char}"
    if char == "\n" and not quotes:
        return char
    if ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) < 0xE000:  # noqa: PLR2004  # controls, and halves of pairs
        return f"\\u{ord(char) if ord(char) < 0xD800 else 0xFFFD:04x}"  # noqa: PLR2004  # as above
    return char
