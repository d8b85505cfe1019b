"""What is to be done and by which agent: tasks, agents and the plan that holds them.

Owns the validation of user-given plans (names, dependencies, cycles). Does no I/O.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ci.issues import issue_of
from lifecycle.errors import PlanError
from lifecycle.record import LOOSE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lifecycle.record import AgentLifecycle

MOST_RETRIES = 1_000_000
NAME_PATTERN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
"""Ids become branch names, folder names and environment values; only harmless ones pass."""

LABEL_PATTERN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def checked_name(value: str) -> str:
    """Return the id unchanged, or say why it cannot name a branch and a folder."""
    if not NAME_PATTERN.fullmatch(value) or ".." in value or value.endswith(".lock"):
        raise ValueError(
            f"{value!r} is not a usable id: 1 to 64 letters, digits, '.', '_' or '-', starting "
            "with a letter or digit, without '..', not ending in '.' or '.lock'"
        )
    return value


def checked_issue(text: str) -> str:
    """Return the reference unchanged, or say why it names no issue; empty for none."""
    if text:
        issue_of(text)
    return text


def checked_label(text: str) -> str:
    """Return what workers are told apart by unchanged, or say why it cannot name a queue."""
    if text and not LABEL_PATTERN.fullmatch(text):
        raise ValueError(f"{text!r} is not a label: 1 to 63 letters, digits, '.', '_' and '-'")
    return text


def checked_reviewer(text: str) -> str:
    """Return who gives a second opinion, or say why nobody can be started by it."""
    if "\0" in text:
        raise ValueError("it holds a NUL character, which no program can be given; remove it")
    try:
        shlex.split(text)
    except ValueError as problem:
        raise ValueError(f"{text!r} is not a command line: {problem}") from problem
    return text.strip()


Name = Annotated[str, AfterValidator(checked_name)]
Label = Annotated[str, AfterValidator(checked_label)]
IssueName = Annotated[str, AfterValidator(checked_issue)]
Reviewer = Annotated[str, AfterValidator(checked_reviewer)]


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

    tokens: int | None = Field(default=None, gt=0)
    """Tokens, as the agent's program counts them."""
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Dollars, where the program names what it cost."""
    hours: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Hours that attempts run; waits cost nothing."""
    attempts: int | None = Field(default=None, gt=0)
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
    issue: IssueName = ""
    """Number (12), owner/name#12 or address of the issue that its merge closes."""
    base: str | None = None
    """Branch to start from and to merge into; the repository's current branch if not given."""
    budget: Allowance | None = None
    """What may be used for this task, instead of what the settings say."""
    max_retries: int | None = Field(default=None, ge=0, le=MOST_RETRIES, strict=True)
    """Retries of this task, instead of what the settings say: exactly so many."""
    review_by: Reviewer | None = None
    """Who gives a second opinion on it, instead of what the plan and the settings say; empty for
    nobody."""
    label: Label = ""
    """What a worker must have to get it, such as gpu, where many machines work."""
    source: str = ""
    """Where it was read from: FILE#ITEM, which is ticked once the task is accepted."""

    if TYPE_CHECKING:  # a list will do where a tuple is kept

        def __init__(  # noqa: PLR0913  # the fields above
            self,
            *,
            id: str,  # noqa: A002  # the field's name
            title: str = "",
            description: str = "",
            dependencies: Sequence[str] = (),
            acceptance: Sequence[str] = (),
            verify: Sequence[str] = (),
            setup: Sequence[str] | None = None,
            tags: Sequence[str] = (),
            agent: str | None = None,
            type: str | None = None,  # noqa: A002  # as above
            issue: str = "",
            base: str | None = None,
            budget: Allowance | None = None,
            max_retries: int | None = None,
            review_by: str | None = None,
            label: str = "",
            source: str = "",
        ) -> None: ...

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
    requeues: int = Field(default=1, ge=1, le=100, strict=True)
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
    args: tuple[str, ...] | dict[str, tuple[str, ...]] = ()
    """More arguments for a known agent program; of a chain also for each program by itself, by
    NAME or NAME:MODEL: {claude = [...], codex = [...]}."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables to set for the agent, beside the fixed ones."""
    type: str | None = None
    """One of the plan's types, which says what follows when it is done or fails."""
    policy: AgentType | None = None
    """What its type says, for those who know the plan no more."""

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913  # the fields above
            self,
            *,
            agent_id: str,
            command: Sequence[str] = (),
            adapter: str | None = None,
            agents: Sequence[str] = (),
            args: Sequence[str] | Mapping[str, Sequence[str]] = (),
            env: Mapping[str, str] = ...,
            type: str | None = None,  # noqa: A002  # the field's name
            policy: AgentType | None = None,
        ) -> None: ...

    @field_validator("command")
    @classmethod
    def _can_be_arguments(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        check_words(words)
        return words

    @field_validator("args", mode="before")
    @classmethod
    def _are_arguments(cls, given: Any, info: ValidationInfo) -> Any:
        """Read them here, so that a mistake is told in one sentence and not once per form."""
        named = given if isinstance(given, dict) else {"": given}
        for name, words in named.items():
            if not isinstance(words, list | tuple) or not all(isinstance(x, str) for x in words):
                whose = f" of {name}" if name else ""
                raise ValueError(f'the arguments{whose} are a list of texts: ["-c", "a=b"]')
            check_words(words)
        if isinstance(given, dict):
            _check_named(given, info.data)
        return given

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

    def args_for(self, name: str, model: str = "") -> tuple[str, ...]:
        """Return the arguments for one of its programs."""
        if not isinstance(self.args, dict):
            return self.args
        return self.args.get(f"{name}:{model}", self.args.get(name, ()))

    @property
    def every_arg(self) -> tuple[str, ...]:
        """All arguments that it may give, to whichever program."""
        if not isinstance(self.args, dict):
            return self.args
        return tuple(word for words in self.args.values() for word in words)

    @property
    def programs(self) -> tuple[str, ...]:
        """The known programs that may take an attempt, the best first; none for a command."""
        return self.agents or ((self.adapter,) if self.adapter is not None else ())


def _check_named(args: Mapping[str, object], agent: Mapping[str, Any]) -> None:
    """Refuse arguments for a program that is none of an agent's."""
    chain = agent.get("agents") or ((agent["adapter"],) if agent.get("adapter") else ())
    known = {*chain, *(entry.partition(":")[0] for entry in chain)}
    for name in args:
        if name in known:
            continue
        if not known:
            raise ValueError(
                "arguments by program need `agents` or `adapter`; a command has its own"
            )
        raise ValueError(f"{name!r} is none of its programs, which are {', '.join(chain)}")


def default_agent_id(task_id: str) -> str:
    """Name the agent of a task as communications.json expects it by default."""
    return f"agent-{task_id}"


class PlanMark(BaseModel):
    """What a lifecycle remembers of the plan that it belongs to."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(default=LOOSE, min_length=1, max_length=200)
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
    name: str = Field(default=LOOSE, min_length=1, max_length=200)
    """Under which its costs are counted; by default the name of its file, without the ending."""
    budget: Allowance | None = None
    """What all its tasks together may use, instead of what the settings say."""
    review_by: Reviewer | None = None
    """Who gives a second opinion on its tasks, instead of what the settings say; empty for nobody.
    """

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913  # the fields above
            self,
            *,
            tasks: Sequence[Task],
            agents: Mapping[str, Agent] = ...,
            types: Mapping[str, AgentType] = ...,
            name: str = ...,
            budget: Allowance | None = None,
            review_by: str | None = None,
        ) -> None: ...

    @field_validator("review_by")
    @classmethod
    def _is_said_to_its_tasks(cls, reviewer: str | None, info: ValidationInfo) -> str | None:
        """Tell each task that names no reviewer itself: it may be worked on without its plan."""
        if reviewer is not None and "tasks" in info.data:
            info.data["tasks"] = tuple(
                task.model_copy(update={"review_by": reviewer}) if task.review_by is None else task
                for task in info.data["tasks"]
            )
        return reviewer

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
