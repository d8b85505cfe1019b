"""Which reader a source of tasks belongs to, seen from its name and content, and reading it.

A source is a file, `command:CMD`, or `NAME:REST` where a package offers NAME by an entry point of
the group `loopwright.tasks`. A form of files is a module here and a line in FORMS.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from lifecycle.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.tasks.found import FoundTasks, ListForm

FORMS = ("prd_json", "taskmaster", "beads", "checklist")
"""Modules of this room, each a `ListForm`; the first that a file fits is taken."""
ENTRY_POINTS = "loopwright.tasks"
COMMAND = "command"
COMMAND_SECONDS = 300.0
PLANS = (".toml",)
_SCHEME = re.compile(r"(?P<name>[a-z][a-z0-9_-]+):(?P<rest>.*)", re.DOTALL)
_INSIDE = {
    ".beads": ("issues.jsonl", "beads.jsonl"),
    ".taskmaster": ("tasks/tasks.json", "tasks.json"),
    "*": ("tasks.md", "prd.json", "PRD.md"),
}
"""What is read of a folder that is named."""


class TaskReader(Protocol):
    """What a package offers as an entry point of the group `loopwright.tasks`."""

    def read(self, rest: str, repo: Path) -> Mapping[str, Any]:
        """Return a plan, as its JSON file would have it; `rest` is what follows `NAME:`."""
        ...


def scheme_of(source: str) -> tuple[str, str]:
    """Return the name before the colon of a source and the rest; nothing for a file."""
    found = _SCHEME.fullmatch(source)
    if found is None or Path(source).exists():
        return "", source
    return found["name"], found["rest"]


def is_plan(source: str) -> bool:
    """Tell whether a source is a plan of ours: a TOML file, or JSON that is no other list."""
    name, _ = scheme_of(source)
    path = Path(source)
    if name or path.is_dir() or path.suffix.lower() not in (*PLANS, ".json"):
        return False
    return path.suffix.lower() in PLANS or not path.exists() or form_of(path) is None


def form_of(path: Path) -> ListForm | None:
    """Return the form that a file has; PlanError where it cannot be read at all."""
    return form_for(str(path), text_of(path))


def form_for(name: str, text: str) -> ListForm | None:
    """Return the form of a file of this name with this text."""
    return next((form for form in map(_form, FORMS) if form.fits(name, text)), None)


def read_file(path: Path) -> FoundTasks:
    """Read the tasks of a file; PlanError says what is wrong with which line."""
    path = inside(path)
    form = form_of(path)
    if form is None:
        raise PlanError(
            f"{path} holds no tasks that can be read: give a plan (.toml, .json), a prd.json, the "
            "tasks.json of Taskmaster, the .jsonl of beads, or Markdown with boxes (`- [ ] TEXT`)"
        )
    found = form.read(text_of(path), str(path))
    if found.problems:
        raise PlanError("\n".join(found.problems))
    return found


def inside(path: Path) -> Path:
    """Return the file that is meant by a folder; a file is meant itself."""
    if not path.is_dir():
        return path
    names = _INSIDE.get(path.name, ()) or _INSIDE["*"]
    found = next((path / name for name in names if (path / name).is_file()), None)
    if found is None:
        raise PlanError(f"{path} is a folder without {' or '.join(names)}: name the file")
    return found


def text_of(path: Path) -> str:
    """Return a file's text with its ends of lines as they are; PlanError says what is wrong."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as problem:
        raise PlanError(f"there is no file {path}; give the path of a plan or a list") from problem
    except OSError as problem:
        raise PlanError(f"{path} cannot be read: {problem.strerror or problem}") from problem
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        line = data[: problem.start].count(b"\n") + 1
        raise PlanError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from problem


def printed(command: str, repo: Path) -> Mapping[str, Any]:
    """Return the plan that a command prints as JSON on its standard output."""
    try:
        words = shlex.split(command) or [""]
        done = subprocess.run(
            words, cwd=repo, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            timeout=COMMAND_SECONDS, check=False, env=dict(os.environ),
        )  # fmt: skip
    except (OSError, ValueError) as problem:
        raise PlanError(f"command:{command} cannot be run: {problem}") from problem
    except subprocess.TimeoutExpired as problem:
        raise PlanError(f"`{command}` printed no plan in {COMMAND_SECONDS:g} s") from problem
    if done.returncode:
        raise PlanError(f"`{command}` ended with code {done.returncode}, and is to print a plan")
    try:
        return as_plan_data(json.loads(done.stdout), f"`{command}`")
    except ValueError as problem:
        raise PlanError(f"`{command}` printed no JSON: {problem}") from problem


def offered(name: str, rest: str, repo: Path) -> Mapping[str, Any]:
    """Return the plan of a reader that an installed package offers."""
    from importlib import metadata  # noqa: PLC0415  # slow, and needed for these alone

    points = metadata.entry_points(group=ENTRY_POINTS)
    point = next((each for each in points if each.name == name), None)
    if point is None:
        known = ", ".join(sorted({each.name for each in points}))
        raise PlanError(
            f"nothing reads {name}:...; there are github:, gitlab:, gitea:, command:"
            + (f", {known}" if known else "")
            + f", and packages add more by entry points of the group {ENTRY_POINTS}"
        )
    try:
        plan = cast("TaskReader", point.load()).read(rest, repo)
    except PlanError:
        raise
    except Exception as problem:  # any code may be behind it
        told = f"{type(problem).__name__}: {problem}"
        raise PlanError(f"{name}:{rest} cannot be read ({point.value}): {told}") from problem
    return as_plan_data(plan, f"{name}:{rest}")


def as_plan_data(data: object, where: str) -> Mapping[str, Any]:
    """Return what has the form of a plan; a list alone counts as its tasks."""
    if isinstance(data, list):
        data = {"tasks": data}
    if not isinstance(data, dict):
        raise PlanError(f"{where}: a plan is an object with `tasks`, not a {type(data).__name__}")
    return data


def _form(name: str) -> ListForm:
    return cast("ListForm", import_module(f"orchestrator.tasks.{name}"))
