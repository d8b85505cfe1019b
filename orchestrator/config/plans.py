"""Reads plans: which tasks there are and which agent program works on each.

Owns the form of plan files and the messages about what is wrong in them. A plan that cannot be run
as a whole is refused before anything starts.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lifecycle.errors import PlanError
from lifecycle.launch.programs import installed, named
from lifecycle.plan import Agent, Allowance, Plan, Task, check_chain, default_agent_id
from orchestrator.approval.restricting_values import PLAN_FILES
from orchestrator.config.toml_text import line_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lifecycle.settings import Settings
    from orchestrator.approval.approvals import Approvals

DEFAULT_AGENT = "default"
BUDGET = "budget"
_MAY_BE = {
    "tokens": "a whole number above 0",
    "usd": "a number above 0",
    "hours": "a number above 0",
    "attempts": "a whole number above 0",
}
_A_BUDGET = f"a table of {', '.join(Allowance.model_fields)}, such as {{ usd = 5.0 }}"
_NO_TABLE = frozenset({"model_type", "model_attributes_type", "dict_type"})
TITLE_LENGTH = 80
MOST_BYTES = 256 * 1024
"""Limit for the text of one task, all of which is in the prompt of every attempt."""


def find_plan(repo: Path) -> Path | None:
    """Return the plan that lies at the top of a repository, if there is one."""
    found = [repo / name for name in PLAN_FILES if (repo / name).exists()]
    if len(found) > 1:
        raise PlanError(
            f"{repo} holds both {' and '.join(PLAN_FILES)}; name the one to use: "
            f"`loopwright up {PLAN_FILES[0]}`"
        )
    return found[0] if found else None


def load_plan(path: Path, approvals: Approvals | None = None) -> Plan:
    """Read and check a plan; PlanError names the file and the line or field.

    With `approvals` it is read as a person approved it, where an agent loosened what holds agents.
    """
    return plan_in(path, _text_of(path), approvals)


def plan_in(path: Path, text: str, approvals: Approvals | None = None) -> Plan:
    """Check the text of a plan, which `path` names in what is said about it."""
    data = _parsed(path, text)
    if approvals is not None:
        data = approvals.plan(path, data)
    return checked_plan(path, text, data)


def checked_plan(path: Path, text: str, data: Mapping[str, Any]) -> Plan:
    """Check a plan that was read from somewhere; its text tells where a value stands."""
    agents = data.get("agents")
    if isinstance(agents, dict):
        # In a file an agent is a template; each task gives it an id of its own.
        named = {
            name: {"agent_id": name, **body} if isinstance(body, dict) else body
            for name, body in agents.items()
        }
        data = {**data, "agents": named}
    try:
        plan = Plan.model_validate({"name": path.name.split(".")[0] or path.name, **data})
    except ValidationError as problem:
        raise PlanError(_explained(path, text, data, problem)) from problem
    if not plan.tasks:
        raise PlanError(f"{path}: the plan has no tasks; add a [[tasks]] table with an id")
    for number, task in enumerate(plan.tasks):
        if wrong := too_long(task):
            raise PlanError(f"{path}{_line(path, text, ('tasks', number))}: {wrong}")
    _check_agents(path, text, plan)
    return plan


def agent_for(task: Task, plan: Plan | None, settings: Settings) -> Agent:
    """Return who works on a task: its own agent, the plan's default, else the settings' program."""
    template = own_agent(task, plan)
    if template is not None:
        agent = template.model_copy(update={"agent_id": default_agent_id(task.id)})
    else:
        agent = chosen_agent(task.id, settings)
    kind = task.type or agent.type
    if plan is None or kind is None:
        return agent
    return agent.model_copy(update={"type": kind, "policy": plan.types[kind]})


def own_agent(task: Task, plan: Plan | None) -> Agent | None:
    """Return the agent that the plan itself gives a task: its own, or the plan's only one."""
    agents = plan.agents if plan is not None else {}
    name = task.agent
    if name is None and DEFAULT_AGENT in agents:
        name = DEFAULT_AGENT
    elif name is None and len(agents) == 1:
        name = next(iter(agents))
    return agents[name] if name is not None else None


def chosen_agent(
    task_id: str, settings: Settings, *, adapter: str | None = None, command: str | None = None
) -> Agent:
    """Return the agent of a task by what was typed, else by the settings."""
    agent_id = default_agent_id(task_id)
    if command is not None:
        return Agent(agent_id=agent_id, command=words_of(command))
    if adapter is None and settings.command:
        return Agent(agent_id=agent_id, command=settings.command)
    chain = settings.agents or ((settings.adapter,) if settings.adapter else ())
    if adapter is not None:
        chain = _chain(adapter)
    if not chain:
        raise PlanError(f"no agent program is set for {task_id}; {_offer()}")
    for name in chain:
        named(name)
    if len(chain) > 1:
        return Agent(agent_id=agent_id, agents=chain)
    return Agent(agent_id=agent_id, adapter=chain[0])


def _chain(text: str) -> tuple[str, ...]:
    """Return the programs that an option names, one or several with commas between them."""
    chain = tuple(name.strip() for name in text.split(","))
    if not all(chain):
        raise PlanError(
            f"--agent {text!r} lacks a name; give --agent NAME, or a chain: --agent NAME,NAME"
        )
    try:
        check_chain(chain)
        for name in chain:
            named(name)
    except (PlanError, ValueError) as problem:
        raise PlanError(f"--agent {text}: {problem}") from problem
    return chain


def budget_of(usd: float | None, attempts: int | None) -> Allowance | None:
    """Return the budget of a task that was typed, if one was."""
    return None if usd is None and attempts is None else Allowance(usd=usd, attempts=attempts)


def task_of(
    text: str,
    task_id: str,
    *,
    verify: Sequence[str] = (),
    base: str | None = None,
    max_retries: int | None = None,
    **more: Any,
) -> Task:
    """Make a task of a few words; its first line is the title, unless one is given with `more`."""
    title = text.strip().split("\n", 1)[0].strip()
    whole = title == text.strip() and len(title) <= TITLE_LENGTH and not more.get("title")
    short = title if len(title) <= TITLE_LENGTH else title[: TITLE_LENGTH - 3].rstrip() + "..."
    try:
        task = Task(
            id=task_id,
            title=more.pop("title", "") or short,
            description="" if whole else text.strip(),
            verify=tuple(verify),
            base=base,
            max_retries=max_retries,
            **more,
        )
    except ValidationError as problem:
        raise PlanError(f"task {task_id}: {_wrong(problem.errors()[0])}") from problem
    if wrong := too_long(task):
        raise PlanError(wrong)
    return task


def too_long(task: Task) -> str:
    """Say that the text of a task has too much for a prompt; nothing if it fits."""
    words = (task.title, task.description, *task.acceptance)
    size = sum(len(each.encode(errors="replace")) for each in words)
    if size <= MOST_BYTES:
        return ""
    return (
        f"the text of task {task.id} has {size // 1024} KiB, and every prompt includes it: at "
        f"most {MOST_BYTES // 1024} KiB; put the rest into a file of the repository and name it"
    )


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError as problem:
        raise PlanError(
            f"there is no plan {path}; give the path of a .toml or .json file"
        ) from problem
    except (OSError, UnicodeDecodeError) as problem:
        raise PlanError(f"{path} cannot be read as a plan: {problem}") from problem


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        if path.suffix == ".json":
            data = json.loads(text)
        elif path.suffix == ".toml":
            data = tomllib.loads(text)
        else:
            raise PlanError(f"{path}: a plan is a .toml or .json file, not {path.suffix or 'this'}")
    except json.JSONDecodeError as problem:
        raise PlanError(
            f"{path}:{problem.lineno}: {problem.msg} (column {problem.colno})"
        ) from problem
    except tomllib.TOMLDecodeError as problem:
        found = re.search(r"\(at line (\d+)", str(problem))
        line = f":{found[1]}" if found else ""
        raise PlanError(f"{path}{line}: {problem}") from problem
    except RecursionError as problem:
        raise PlanError(f"{path} is nested too deeply for a plan") from problem
    if not isinstance(data, dict):
        raise PlanError(f"{path}: a plan is an object with `tasks`, not a {type(data).__name__}")
    return data


def _check_agents(path: Path, text: str, plan: Plan) -> None:
    for task in plan.tasks:
        if task.agent is not None and task.agent not in plan.agents:
            known = ", ".join(plan.agents) or "none"
            raise PlanError(
                f"{path}: task {task.id} names agent {task.agent!r}, but the plan defines: {known}"
            )
    for number, task in enumerate(plan.tasks):
        if problem := _unknown_type(task.type, plan):
            line = _line(path, text, ("tasks", number))
            raise PlanError(f"{path}{line}: task {task.id} {problem}")
    for name, agent in plan.agents.items():
        if found := _wrong_in_agent(agent, plan):
            key, problem = found
            line = _line(path, text, ("agents", name, key))
            raise PlanError(f"{path}{line}: agents.{name}{problem}")


def _wrong_in_agent(agent: Agent, plan: Plan) -> tuple[str, str] | None:
    """Return the field that is wrong, and what is wrong with it."""
    if agent.policy is not None:
        return "policy", (
            ": what happens after its end is set by a type: write [types.NAME] with on_error or "
            'on_done, and type = "NAME" for the agent'
        )
    if problem := _unknown_type(agent.type, plan):
        return "type", f" {problem}"
    for program in agent.programs:
        try:
            named(program)
        except PlanError as problem:
            return ("agents" if agent.agents else "adapter"), f": {problem}"
    return None


def _unknown_type(kind: str | None, plan: Plan) -> str:
    if kind is None or kind in plan.types:
        return ""
    known = ", ".join(plan.types)
    return f"names type {kind!r}; " + (
        f"the plan defines: {known}" if known else f"write a [types.{kind}] table for it"
    )


def _explained(path: Path, text: str, data: Mapping[str, Any], problem: ValidationError) -> str:
    """Say what is wrong with the first field that is wrong, and where it stands."""
    first = problem.errors(include_url=False)[0]
    place = [part for part in first["loc"] if part != "function-after"]
    line, field = "", ".".join(str(part) for part in place)
    if len(place) > 1 and place[0] == "tasks" and isinstance(place[1], int):
        number = place[1]
        line = _line(path, text, ("tasks", number))
        rest = ".".join(str(part) for part in place[2:])
        field = f"task {_id_of(data, number)}" + (f", {rest}" if rest else "")
    if BUDGET in place or place[:1] in (["agents"], ["types"]):
        line = _line(path, text, place) or line
    more = problem.error_count() - 1
    also = f" (and {more} more)" if more else ""
    where = f"{path}{line}: {field}" if field else f"{path}"
    return f"{where}: {_wrong(first)}{also}"


def _id_of(data: Mapping[str, Any], number: int) -> str:
    try:
        return str(data["tasks"][number]["id"])
    except (LookupError, TypeError):
        return f"number {number + 1}"


def _wrong(error: Any) -> str:
    """Say what is wrong with one field, in the words of plans."""
    place = error["loc"]
    if error["type"] == "extra_forbidden":
        known = f"; it may hold {', '.join(_MAY_BE)}" if BUDGET in place[:-1] else ""
        return f"there is no field {place[-1]!r}{known}"
    if BUDGET in place[:-1] and place[-1] in _MAY_BE:
        return f"must be {_MAY_BE[place[-1]]}, not {error['input']!r:.60}"
    if error["type"] == "literal_error":
        return f"must be {error['ctx']['expected']}, not {error['input']!r:.60}"
    if error["type"] in _NO_TABLE:
        return f"must be {_A_BUDGET if place[-1:] == (BUDGET,) else 'a table'}"
    return re.sub(r"^Value error, ", "", str(error["msg"]))


def _line(path: Path, text: str, place: Sequence[str | int]) -> str:
    """Return `:LINE` of a value of a TOML plan; nothing for JSON."""
    line = line_of(text, place) if path.suffix == ".toml" else 0
    return f":{line}" if line else ""


def words_of(command: str) -> tuple[str, ...]:
    """Split what was given as --command."""
    try:
        words = tuple(shlex.split(command))
    except ValueError as problem:
        raise PlanError(f"--command {command!r} cannot be split into words: {problem}") from problem
    if not words:
        raise PlanError("--command is empty; give a program and its arguments")
    return words


def _offer() -> str:
    here = ", ".join(installed())
    known = f"installed here: {here}" if here else "no known agent program is installed"
    return (
        f"give --agent NAME ({known}), --command 'PROGRAM ARG', or set `adapter` or `command` "
        "in loopwright.toml"
    )
