"""What is to be done and by which agent: tasks, agents and the plan that holds them.

Owns the validation of user-given plans (names, dependencies, cycles). Does no I/O.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from lifecycle.errors import PlanError
from lifecycle.record import LOOSE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lifecycle.record import AgentLifecycle

MOST_RETRIES = 1_000_000
NAME_PATTERN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
"""Ids become branch names, folder names and environment values; only harmless ones pass."""


def checked_name(value: str) -> str:
    """Return the id unchanged, or say why it cannot name a branch and a folder."""
    if not NAME_PATTERN.fullmatch(value) or ".." in value or value.endswith(".lock"):
        raise ValueError(
            f"{value!r} is not a usable id: 1 to 64 letters, digits, '.', '_' or '-', starting "
            "with a letter or digit, without '..', not ending in '.' or '.lock'"
        )
    return value


Name = Annotated[str, AfterValidator(checked_name)]


def check_words(words: Iterable[str]) -> None:
    """Refuse words that no process can be given."""
    if any("\0" in word for word in words):
        raise ValueError("it holds a NUL character, which no program can be given; remove it")


def check_variables(names: Iterable[str]) -> None:
    """Refuse what does not name a variable, without quoting what follows a `=`: it may be a key."""
    for name in names:
        before, equals, _ = name.partition("=")
        if equals and before:
            raise ValueError(
                f"names of variables only, without their values: write {before!r}, and set its "
                "value in the environment"
            )
        if not before or any(letter.isspace() or letter == "\0" for letter in name):
            raise ValueError(f"{before!r} is not the name of a variable")


def check_chain(names: tuple[str, ...]) -> None:
    """Refuse a chain of agent programs in which one stands twice."""
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is in the chain twice; name each program once")


class Allowance(BaseModel):
    """What may be used; what is not given is limited by the settings alone."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    tokens: int | None = Field(None, gt=0)
    """Tokens, as the agent's program counts them."""
    usd: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Dollars, where the program names what it cost."""
    hours: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Hours that attempts run; waits cost nothing."""
    attempts: int | None = Field(None, gt=0)
    """Attempts, for whatever reason they were begun."""


class Task(BaseModel):
    """A unit of work from a plan."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Name
    title: str = ""
    description: str = ""
    dependencies: tuple[Name, ...] = ()
    acceptance: tuple[str, ...] = ()
    """What must hold at the end, in words; shown to the agent."""
    verify: tuple[str, ...] = ()
    """Shell commands that must succeed on the committed tree before the task counts as complete."""
    setup: tuple[str, ...] | None = None
    """Shell commands that install what its code needs, instead of the general ones; [] for none."""
    tags: tuple[str, ...] = ()
    agent: str | None = None
    """Name of the plan's agent that works on it; the plan's default if not given."""
    type: str | None = None
    """Type of the agent that works on it, instead of what the agent says."""
    base: str | None = None
    """Branch to start from and to merge into; the repository's current branch if not given."""
    budget: Allowance | None = None
    """What may be used for this task, instead of what the settings say."""
    max_retries: int | None = Field(None, ge=0, le=MOST_RETRIES, strict=True)
    """Retries of this task, instead of what the settings say: exactly so many."""

    @model_validator(mode="after")
    def _does_not_wait_for_itself(self) -> Task:
        if self.id in self.dependencies:
            raise ValueError(f"task {self.id} depends on itself")
        return self


class AgentType(BaseModel):
    """What a plan lets follow when an agent of a type is done or fails."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    on_error: Literal["end", "requeue", "shutdown"] = "end"
    """It fails: the others continue, its task goes back into the queue, or all is shut down."""
    on_done: Literal["end", "shutdown"] = "end"
    """Its task is complete: the others continue, or all is shut down."""
    requeues: int = Field(1, ge=1, le=100, strict=True)
    """Times at most that a task goes back into the queue, each time with all its retries."""


class Agent(BaseModel):
    """The identity that works on a task, and how its process is started."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent_id: Name
    command: tuple[str, ...] = ()
    """Program and arguments; the prompt comes on its standard input."""
    adapter: str | None = None
    """A known agent program instead of a command: NAME or NAME:MODEL."""
    agents: tuple[str, ...] = ()
    """A chain of known agent programs: the first that can takes the next attempt."""
    args: tuple[str, ...] = ()
    """More arguments for a known agent program."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables to set for the agent, beside the fixed ones."""
    type: str | None = None
    """One of the plan's types, which says what follows when it is done or fails."""
    policy: AgentType | None = None
    """What its type says, for those who know the plan no more."""

    @field_validator("command", "args")
    @classmethod
    def _can_be_arguments(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        check_words(words)
        return words

    @field_validator("env")
    @classmethod
    def _can_be_variables(cls, env: dict[str, str]) -> dict[str, str]:
        check_variables(env)
        check_words(env.values())
        return env

    @field_validator("agents")
    @classmethod
    def _is_a_chain(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        check_chain(names)
        return names

    @model_validator(mode="after")
    def _says_what_to_start(self) -> Agent:
        ways = (bool(self.command), self.adapter is not None, bool(self.agents))
        if sum(ways) != 1:
            raise ValueError(
                f"agent {self.agent_id}: give either command=[...] or adapter='NAME' or "
                "agents=['NAME', ...], and only one of them"
            )
        return self

    @property
    def programs(self) -> tuple[str, ...]:
        """The known programs that may take an attempt, the best first; none for a command."""
        return self.agents or ((self.adapter,) if self.adapter is not None else ())


def default_agent_id(task_id: str) -> str:
    """Name the agent of a task as communications.json expects it by default."""
    return f"agent-{task_id}"


class PlanMark(BaseModel):
    """What a lifecycle remembers of the plan that it belongs to."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(LOOSE, min_length=1, max_length=200)
    budget: Allowance | None = None


_LOOSE = PlanMark()


def plan_of(record: AgentLifecycle) -> PlanMark:
    """Return the plan that a lifecycle belongs to."""
    kept = record.facts.get("plan")
    return PlanMark.model_validate(kept) if kept else _LOOSE


class Plan(BaseModel):
    """Tasks with their dependencies; refused as a whole if they cannot all be reached."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tasks: tuple[Task, ...]
    agents: dict[str, Agent] = Field(default_factory=dict)
    """Templates by name; `agent_id` is set per task when one is used."""
    types: dict[str, AgentType] = Field(default_factory=dict)
    """Types of agents by name; tasks and agents name theirs."""
    name: str = Field(LOOSE, min_length=1, max_length=200)
    """Under which its costs are counted; by default the name of its file, without the ending."""
    budget: Allowance | None = None
    """What all its tasks together may use, instead of what the settings say."""

    @model_validator(mode="after")
    def _can_be_run(self) -> Plan:
        check_dependencies(self.tasks)
        return self

    def mark(self) -> PlanMark:
        """Return what lifecycles remember of it."""
        return PlanMark(name=self.name, budget=self.budget)

    def task(self, task_id: str) -> Task:
        """Find a task of the plan by its id."""
        for task in self.tasks:
            if task.id == task_id:
                return task
        raise PlanError(f"no task {task_id} in the plan; it holds: {_listed(self.tasks)}")


def check_dependencies(tasks: Iterable[Task]) -> None:
    """Refuse doubled ids, unknown dependencies and cycles, naming them."""
    by_id: dict[str, Task] = {}
    for task in tasks:
        if task.id in by_id:
            raise ValueError(f"two tasks have the id {task.id}; ids must be unique")
        by_id[task.id] = task
    for task in by_id.values():
        for wanted in task.dependencies:
            if wanted not in by_id:
                raise ValueError(
                    f"task {task.id} depends on {wanted}, which is not in the plan; "
                    f"it holds: {_listed(by_id.values())}"
                )
    cycle = _find_cycle(by_id)
    if cycle:
        raise ValueError(f"the dependencies form a cycle: {' -> '.join(cycle)}; remove one of them")


def _find_cycle(by_id: dict[str, Task]) -> list[str]:
    done: set[str] = set()
    for start in by_id:
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            task_id, leaving = stack.pop()
            if leaving:
                done.add(path.pop())
            elif task_id in path:
                return [*path[path.index(task_id) :], task_id]
            elif task_id not in done:
                path.append(task_id)
                stack.append((task_id, True))
                stack.extend((wanted, False) for wanted in by_id[task_id].dependencies)
    return []


def _listed(tasks: Iterable[Task]) -> str:
    ids = [task.id for task in tasks]
    shown = ", ".join(ids[:12])
    return f"{shown} and {len(ids) - 12} more" if len(ids) > 12 else shown or "nothing"  # noqa: PLR2004  # a line's worth
