"""One lifecycle in the hands of its owner: its record, and what is remembered beside it.

Everything here can be loaded again from the store; it is kept only so that the way from one
attempt to the next reads nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from lifecycle.machine import events as on
from lifecycle.machine.states import Spawning
from lifecycle.masking import masked, without_secrets
from lifecycle.plan import Agent, Task
from runtime.masking import Masker
from runtime.tree import ChangedFile

if TYPE_CHECKING:
    from communication.mailbox import Mailbox
    from lifecycle.context import LedgerEntry
    from lifecycle.machine.states import Gate, Word
    from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry
    from lifecycle.store.port import LifecycleStore
    from runtime.begun import BegunMerge
    from runtime.tree import Commit, TreeStatus
    from runtime.workspace import Workspace

REMEMBERED_ATTEMPTS = 200
REMEMBERED_FACTS = 200
LASTING = (
    on.SnapshotTaken,
    on.BlockersLooked,
    on.DependencySettled,
    on.WorkJoined,
    on.CiReported,
    on.Reviewed,
    on.Unblocked,
    on.Answered,
    on.Guided,
)
"""Facts of a block, and words of people: an attempt that came to nothing does not use them up."""


@dataclass(slots=True)
class Head:
    """What git said about one head commit; asked once per commit."""

    sha: str = ""
    commits: tuple[Commit, ...] = ()
    files: tuple[ChangedFile, ...] = ()


@dataclass(slots=True)
class Case:
    """A lifecycle and its memory."""

    record: AgentLifecycle
    task: Task
    agent: Agent
    seq: int = 0
    """Of the latest journal entry."""
    recent: list[JournalEntry] = field(default_factory=list)
    """The journal since the latest agent was spawned, that one included, and what was too late for
    its summary."""
    before: list[JournalEntry] = field(default_factory=list)
    """Of the journal before that, what the latest agent was told and may not have gone on from."""
    ledger: list[AttemptRow] = field(default_factory=list)
    told: dict[int, tuple[AttemptRow, LedgerEntry]] = field(default_factory=dict)
    """What the latest summary told of each row; by its identity, for to compare rows is slow."""
    workspace: Workspace | None = None
    mailbox: tuple[Workspace, Mailbox] | None = None
    """The agent's mailbox, and the workspace that it belongs to."""
    head: Head = field(default_factory=Head)
    dirty: tuple[ChangedFile, ...] = ()
    hidden: tuple[str, ...] = ()
    """Files that nothing but ignore rules of the agent's own keep out of its commits."""
    set_up: Gate | None = None
    """The set-up command that failed in the workspace for what the agent changed."""
    merges: tuple[BegunMerge, ...] = ()
    """What the agent is to merge; the first stands begun in its workspace."""

    @property
    def agent_id(self) -> str:
        """The id under which everything of this lifecycle is kept."""
        return self.record.agent_id

    @property
    def attempt(self) -> int:
        """Number of the attempt under way, or of the next one."""
        return self.record.work.tally.attempt if self.record.work is not None else 1

    def had(self, sha: str) -> bool:
        """Tell whether a commit is known from this or an earlier attempt, as far as we remember."""
        if not sha:
            return False
        known = {self.head.sha, self.record.facts.get("base_commit")}
        known |= {head for row in self.ledger for head in (row.head_before, row.head_after)}
        return sha in known or any(sha == commit.sha for commit in self.head.commits)

    def remember(self, entry: JournalEntry) -> None:
        """Keep a fact for the next summary."""
        if isinstance(entry.event, on.AgentSpawned) and not entry.late:
            unheard = self._unheard()
            heard = [*self.lasting(), *(told for told in self.recent if told not in unheard)]
            self.before = [told for told in heard if _lasts(told)][-REMEMBERED_FACTS:]
            self.recent = [entry, *unheard]
        else:
            self.recent.append(entry)
        if len(self.recent) > REMEMBERED_FACTS:
            del self.recent[1]

    def lasting(self) -> list[JournalEntry]:
        """Return what was told to the latest agent and still counts, because it came to nothing.

        An attempt that signalled went on from it, unless the verify commands failed.
        """
        spoke = any(_word(told.event) for told in self.recent if not told.late)
        red = any(
            isinstance(told.event, on.GatesFinished) and not all(g.ok for g in told.event.gates)
            for told in self.recent
        )
        return [] if spoke and not red else self.before

    def _unheard(self) -> list[JournalEntry]:
        """Return what was said since the order to spawn: too late for the agent's summary."""
        since = takewhile(lambda told: told.before == Spawning.__name__, reversed(self.recent))
        said = [told for told in since if isinstance(told.event, (on.Reviewed, on.Guided))]
        return said[::-1]

    def note_attempt(self, row: AttemptRow) -> None:
        """Bring the ledger up to date."""
        if self.ledger and self.ledger[-1].attempt == row.attempt:
            self.ledger[-1] = row
        else:
            self.ledger.append(row)
            del self.ledger[:-REMEMBERED_ATTEMPTS]


def _word(event: on.Event) -> Word | None:
    return getattr(event, "word", None)


def _lasts(entry: JournalEntry) -> bool:
    return not entry.late and (isinstance(entry.event, LASTING) or _word(entry.event) is not None)


def uncommitted(status: TreeStatus) -> tuple[ChangedFile, ...]:
    """Return the files that are not as in the commit, and which of them git does not know yet."""
    new = set(status.untracked)
    return tuple(ChangedFile(path, "new" if path in new else "modified") for path in status.dirty)


def facts_of(task: Task, agent: Agent, masker: Masker | None = None) -> dict[str, object]:
    """Return what of task and agent goes into the record, so that a restart can go on.

    Secrets are not kept: of a variable that holds one only that it did.
    """
    masker = Masker() if masker is None else masker
    masker.learn_from(agent.env)
    kept = agent.model_copy(update={"env": without_secrets(agent.env, masker)})
    facts: dict[str, object] = {
        "task": task.model_dump(mode="json"),
        "agent": kept.model_dump(mode="json"),
    }
    return masked(facts, masker)


async def load(store: LifecycleStore, record: AgentLifecycle) -> Case:
    """Bring back a lifecycle as its owner left it."""
    case = Case(
        record=record,
        task=Task.model_validate(record.facts["task"]),
        agent=Agent.model_validate(record.facts["agent"]),
    )
    for entry in await store.journal(record.agent_id, limit=REMEMBERED_FACTS, newest=True):
        case.seq = entry.seq
        case.remember(entry)
    case.ledger = list(await store.attempts(record.agent_id, limit=REMEMBERED_ATTEMPTS))
    return case
