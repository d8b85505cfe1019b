"""One lifecycle in the memory of this runner: its record, its past, and what is open here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lifecycle.drive import REMEMBERED_ATTEMPTS, REMEMBERED_FACTS, WorkingCopy
from lifecycle.mask_values import masked, without_secrets
from lifecycle.plan import Agent, Task
from lifecycle.record import MACHINE
from runtime.git.porcelain import ChangedFile
from runtime.masking.masker import Masker

if TYPE_CHECKING:
    from communication.mailbox import Mailbox
    from lifecycle.machine.states import Gate
    from lifecycle.record import AgentLifecycle
    from lifecycle.store.sqlite.store import SqliteStore
    from runtime.git.porcelain import GitCommit, TreeStatus
    from runtime.workspace import Workspace
    from runtime.workspaces.begun_merge import BegunMerge


@dataclass(slots=True)
class BranchHead:
    """What git said about one head commit; asked once per commit."""

    sha: str = ""
    commits: tuple[GitCommit, ...] = ()
    files: tuple[ChangedFile, ...] = ()


@dataclass(slots=True, kw_only=True)
class LocalCopy(WorkingCopy):
    """A working copy on this machine, with its open workspace and what is known of it here."""

    task: Task
    agent: Agent
    workspace: Workspace | None = None
    mailbox: tuple[Workspace, Mailbox] | None = None
    """The agent's mailbox, and the workspace that it belongs to."""
    head: BranchHead = field(default_factory=BranchHead)
    dirty: tuple[ChangedFile, ...] = ()
    hidden: tuple[str, ...] = ()
    """Files that nothing but ignore rules of the agent's own keep out of its commits."""
    set_up: Gate | None = None
    """The set-up command that failed in the workspace for what the agent changed."""
    merges: tuple[BegunMerge, ...] = ()
    """What the agent is to merge; the first stands begun in its workspace."""

    def had(self, sha: str) -> bool:
        """Tell whether a commit is known from this or an earlier attempt, as far as we remember."""
        if not sha:
            return False
        known = {self.head.sha, self.record.facts.get("base_commit")}
        known |= {head for row in self.ledger for head in (row.head_before, row.head_after)}
        return sha in known or any(sha == commit.sha for commit in self.head.commits)


def uncommitted(status: TreeStatus) -> tuple[ChangedFile, ...]:
    """Return the files that are not as in the commit, and which of them git does not know yet."""
    new = set(status.untracked)
    return tuple(ChangedFile(path, "new" if path in new else "modified") for path in status.dirty)


def facts_of(task: Task, agent: Agent, masker: Masker | None = None) -> dict[str, object]:
    """Return what of task and agent goes into the record, so that a restart can continue.

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


def machine_of(record: AgentLifecycle) -> str:
    """Return the machine that ran a lifecycle last; empty where nobody wrote it down."""
    return str(record.facts.get(MACHINE, ""))


async def load(store: SqliteStore, record: AgentLifecycle) -> LocalCopy:
    """Bring back a lifecycle as its owner left it."""
    local = LocalCopy(
        record=record,
        task=Task.model_validate(record.facts["task"]),
        agent=Agent.model_validate(record.facts["agent"]),
    )
    for entry in await store.journal(record.agent_id, limit=REMEMBERED_FACTS, newest=True):
        local.seq = entry.seq
        local.remember(entry)
    for row in await store.attempts(record.agent_id, limit=REMEMBERED_ATTEMPTS):
        local.note_attempt(row)
    return local
