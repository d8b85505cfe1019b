"""What travels to a worker: the assignment of one lifecycle, and the news with each order.

Plain values in the one JSON form (`lifecycle.json_form`), each at most `MOST_BYTES` long and
without secrets: what is masked in settings is refused where it would be run. Must not read or
write anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from lifecycle.base_commits import StartingPoint  # noqa: TC001  # json_form reads annotations
from lifecycle.drive import WorkingCopy
from lifecycle.errors import ArgumentError
from lifecycle.json_form import encode
from lifecycle.machine.budget import BudgetShare  # noqa: TC001  # as above
from lifecycle.mask_values import masked
from lifecycle.plan import Agent, Task
from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry  # noqa: TC001  # as above
from lifecycle.settings import EngineSettings, Settings, checked_settings
from lifecycle.working_copy import LocalCopy

if TYPE_CHECKING:
    from lifecycle.machine.budget import Spent
    from runtime.masking.masker import Masker

MOST_BYTES = 64 * 1024
"""Of the JSON form of an assignment, or of the news of one order."""
NOT_FOR_NAMES = 16 * 1024
"""Of that, what names of tasks leave free: a lifecycle grows while it waits for its worker."""
ELSEWHERE = frozenset({
    "allowed_hosts", "host", "max_live_agents", "notify", "on_transition", "port", "public_url",
    "retention_hours", "sign_in_file", "stay_for_pages", "stay_for_people", "worktrees_dir",
})  # fmt: skip
"""Settings that do not travel: the coordinator alone needs them, or each machine has its own."""
FROM_CI = frozenset({"lease", "on_conflict", "push_timeout"})
"""Of the settings of CI, forges and engines, those that a worker needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One visit of a lifecycle to a worker."""

    assignment_id: str
    """Unlike that of any other visit; facts are fenced by it."""
    copy: WorkingCopy
    settings: dict[str, Any]
    """As `settings_for` gives them."""
    completed: dict[str, str] = field(default_factory=dict)
    """Done tasks that this one may speak of, with their titles."""
    start: StartingPoint | None = None
    """Where its work begins, by full commit ids; None where it has begun."""
    target: str = ""
    """The branch that its work goes into; empty where it goes into none."""
    work: dict[str, str] = field(default_factory=dict)
    """The commit that brings a task's completed work, by task."""
    tasks: dict[str, str] = field(default_factory=dict)
    """The task that an agent means by a name: its own id, or that of its agent."""
    over: tuple[str, ...] = ()
    """Agents whose work was accepted: what a worker still has of them is removed."""
    budgets: tuple[BudgetShare, ...] = ()
    """What may be used; each attempt is ended where it uses up one of them."""
    approved: dict[str, str] = field(default_factory=dict)
    """Commits with whose files a person lets set-ups use the network, by their inputs."""

    @property
    def agent_id(self) -> str:
        """The lifecycle's agent."""
        return self.copy.agent_id

    @property
    def birth(self) -> str:
        """The birth of its record."""
        return self.copy.record.birth

    @property
    def attempt(self) -> int:
        """The attempt that it begins with."""
        return self.copy.attempt

    def local_copy(self) -> LocalCopy:
        """Return the lifecycle as it is worked on here."""
        facts = self.copy.record.facts
        return LocalCopy(
            **_parts(self.copy),
            task=Task.model_validate(facts["task"]),
            agent=Agent.model_validate(facts["agent"]),
        )

    def afford(self, so_far: Spent) -> str:
        """Say which budget an attempt uses up that used so much so far; nothing if none."""
        return next(filter(None, (each.over(so_far) for each in self.budgets)), "")

    def read_settings(self) -> Settings:
        """Return the settings; SettingsError where this version does not know one."""
        return checked_settings(self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What was decided about a lifecycle since the order before."""

    record: AgentLifecycle
    journal: tuple[JournalEntry, ...] = ()
    row: AttemptRow | None = None
    """The latest of its attempts."""

    def onto(self, copy: WorkingCopy) -> None:
        """Bring a working copy up to date; what it knows already changes nothing."""
        if self.record.version < copy.record.version:
            return
        copy.record = self.record
        if self.row is not None:
            copy.note_attempt(self.row)
        for entry in self.journal:
            if entry.seq > copy.seq:
                copy.seq = entry.seq
                copy.remember(entry)


def travelling(copy: WorkingCopy) -> WorkingCopy:
    """Return the part of a working copy that travels: what any machine knows of a lifecycle."""
    return WorkingCopy(**_parts(copy))


def settings_for(settings: Settings, masker: Masker) -> dict[str, Any]:
    """Return what a worker needs of the settings, as plain values and without secrets."""
    left_out = (EngineSettings.model_fields.keys() - FROM_CI) | ELSEWHERE
    return masked(settings.model_dump(mode="json", exclude=set(left_out)), masker)


def fitted(assignment: Assignment) -> Assignment:
    """Return an assignment that may travel: with as many names of tasks as there is room for.

    A name that is left out is a word like any other until the coordinator looks at it.
    ArgumentError where there is no room even without any.
    """
    if (over := len(encode(assignment)) - (MOST_BYTES - NOT_FOR_NAMES)) <= 0:
        return assignment
    tasks = dict(assignment.tasks)
    while tasks and over > 0:
        name, task = tasks.popitem()
        over -= len(encode({name: task})) - 1
    if (over := over - NOT_FOR_NAMES) > 0:
        raise ArgumentError(
            f"{assignment.agent_id} cannot be sent to a worker: its record and settings take "
            f"{over} bytes more than {MOST_BYTES}; shorten the task's description, or "
            "what its settings list"
        )
    return replace(assignment, tasks=tasks)


def _parts(copy: WorkingCopy) -> dict[str, Any]:
    """Return the fields of a working copy; what can be changed in it, anew."""
    told = {each.name: getattr(copy, each.name) for each in fields(WorkingCopy)}
    return {
        name: value.copy() if isinstance(value, (list, dict)) else value
        for name, value in told.items()
    }
