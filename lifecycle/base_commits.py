"""Where a task starts from: on top of the work it depends on, accepted or not.

That work may have been made by a worker, which pushed it from a clone of its own: it is brought
here before it is read, merged or built upon. Where one machine does all the work nothing is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lifecycle.machine.states import TERMINAL, Accepted, Completed, State, Suspended
from lifecycle.record import Filter, worker_of
from lifecycle.store.damaged_records import RecordDamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lifecycle.plan import Task
    from lifecycle.ports import Branches, Bring
    from lifecycle.record import AgentLifecycle
    from lifecycle.store.sqlite.store import SqliteStore


class CommitWatch(Protocol):
    """Notes what the work of agents would loosen of what holds them."""

    async def captured(
        self, store: SqliteStore, agent_id: str, since: Sequence[str], tips: Sequence[str]
    ) -> None:
        """Record what the tips have and `since` has not, before any of it can be merged."""
        ...

    async def against(self, store: SqliteStore, base: str, head: str) -> str:
        """Say why nobody merges these commits unasked; nothing when nothing speaks against it."""
        ...


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """Where a task starts from."""

    commit: str | None
    """A branch or a commit; None for the user's present one."""
    merge: tuple[str, ...] = ()
    """Heads of dependencies that do not go together with it."""
    conflicts: tuple[str, ...] = ()
    """The files in which they do not."""
    why: str = ""
    tasks: tuple[str, ...] = ()
    """Tasks whose work it holds, and that nobody accepted yet."""


class BaseCommits:
    """Finds the commits to start from in the lifecycles of other tasks."""

    def __init__(self, store: SqliteStore, branches: Branches) -> None:
        self._store = store
        self._branches = branches
        self.bring: Bring | None = None
        """Has a branch here that a worker pushed."""
        self.watch: CommitWatch | None = None
        """Is told of what it committed."""

    async def of_task(self, task_id: str) -> AgentLifecycle | None:
        """Return the newest lifecycle of a task; RecordDamagedError when it cannot be read.

        With an older one, or none, others would start without its work.
        """
        page = await self._store.list(Filter(task_id=task_id), limit=1)
        for damaged in page.damaged:
            raise RecordDamagedError(damaged)
        return page.records[0] if page.records else None

    async def task_named(self, name: str) -> str:
        """Return the task that this names, itself or by its agent; nothing if none is recorded."""
        if await self.of_task(name) is not None:
            return name
        record = await self._store.get(name)
        return record.task_id if record is not None else ""

    async def start_of(self, task: Task) -> StartingPoint:
        """Return where to start from.

        Work of dependencies that is completed but not accepted yet is built upon; several of them
        are joined first, as far as they go together.
        """
        heads: dict[str, str] = {}
        for wanted in task.dependencies:
            record = await self.of_task(wanted)
            if record is not None and isinstance(record.work, Completed) and record.work.head:
                await bring_work(self._store, record, self.bring, self.watch)
                heads[wanted] = record.work.head
        if not heads:
            return StartingPoint(task.base)
        message = f"Join the bases of {task.id}"
        (first, start), *others = heads.items()
        why, tasks = "", [first]
        apart: list[str] = []
        files: list[str] = []
        for wanted, head in others:
            joined = await self._branches.join((start, head), message=message)
            if joined.commit is not None:
                start = joined.commit
                tasks.append(wanted)
                continue
            apart.append(head)
            files += joined.conflicts
            why = why or joined.reason
        return StartingPoint(
            start, tuple(apart), tuple(dict.fromkeys(files)), why, tasks=tuple(tasks)
        )

    async def work_of(self, task_id: str, into: str) -> str:
        """Return the commit that brings the work of a completed task; nothing if there is none.

        Where only the branch that it was merged into can tell, the newest commit of that.
        """
        record = await self.of_task(task_id)
        match record.work if record is not None else None:
            case Completed(head=head):
                return head
            case Accepted(commit=commit) if await self._branches.commit_exists(commit):
                return commit
            case _:
                return (await self._branches.head(into) if into else None) or ""

    async def target_of(self, task: Task) -> str:
        """Return the branch that the work on top of other work goes into at the end."""
        if task.base is not None:
            # Nothing can be merged into a commit.
            return task.base if await self._branches.head(task.base) is not None else ""
        for wanted in task.dependencies:
            record = await self.of_task(wanted)
            if record is not None and record.facts.get("base_branch"):
                return str(record.facts["base_branch"])
        return ""

    async def unaccepted(self, wanting: Iterable[str], into: str) -> tuple[AgentLifecycle, ...]:
        """Return those of these tasks whose work is completed, and not accepted or in a branch."""
        found = []
        for wanted in wanting:
            record = await self.of_task(wanted)
            if record is None or not isinstance(record.work, Completed):
                continue
            if not await self._branches.history.holds(into, record.work.head):
                found.append(record)
        return tuple(found)


def needs(dependencies: Iterable[str], state: State | None) -> tuple[str, ...]:
    """Return the tasks that a lifecycle depends on, by its plan or as its agent said."""
    said = state.tally.depends_on if state is not None else ()
    return tuple(dict.fromkeys((*dependencies, *said)))


def is_done(state: State | None) -> bool:
    """Tell whether others may build on this."""
    return isinstance(state, (Completed, Accepted))


async def bring_work(
    store: SqliteStore,
    record: AgentLifecycle,
    bring: Bring | None,
    watch: CommitWatch | None = None,
) -> None:
    """Have the branch of a lifecycle here as its worker pushed it; RuntimeFault if that fails.

    One function for all that read, merge or build upon it. Whoever may go on to merge it passes the
    `watch`: a worker does not note what its commits would loosen.
    """
    branch = str(record.facts.get("branch", ""))
    if bring is None or not worker_of(record) or not branch or isinstance(record.work, TERMINAL):
        return
    if head := await _pushed_head(store, record):
        await bring(branch, head)
        if watch is not None:
            base, into = (
                str(record.facts.get(name) or "") for name in ("base_commit", "base_branch")
            )
            since = tuple(filter(None, (base, into and f"refs/heads/{into}")))
            await watch.captured(store, record.agent_id, since, (head,))


async def _pushed_head(store: SqliteStore, record: AgentLifecycle) -> str:
    """Return the newest commit that the record knows of; empty while there is none."""
    work = record.work.inner if isinstance(record.work, Suspended) else record.work
    if head := str(getattr(work, "head", "")):
        return head
    rows = await store.attempts(record.agent_id)
    return next((row.head_after for row in reversed(rows) if row.head_after), "")
