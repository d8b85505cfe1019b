"""What else a merge would bring into a branch: commits of lifecycles that nobody accepted.

Decided by ancestry of what is on record and under refs, not by what a plan says. It changes
nothing, and does not decide what follows.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.machine.states import Accepted, Completed, Reason, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lifecycle.ports import Branches
    from lifecycle.record import AgentLifecycle
    from lifecycle.store.sqlite.store import SqliteStore
    from runtime.git.history import Unmerged

DONE, UNDER_WAY = "not accepted", "under way"
REJECTED, GIVEN_UP, GONE = "rejected", "given up", "its record is gone"


@dataclass(frozen=True, slots=True)
class Along:
    """A lifecycle whose commits another one's work holds."""

    agent_id: str
    state: str
    task_id: str = ""

    @property
    def may_be_accepted(self) -> bool:
        """Tell whether it waits for the same decision."""
        return self.state == DONE

    def __str__(self) -> str:
        """Name it with what is wrong about it."""
        return f"{self.agent_id} ({self.state})"


@dataclass(frozen=True, slots=True)
class MergeCandidate:
    """Something to be merged: whose, from where, into what."""

    agent_id: str
    head: str
    base: str
    """The commit of the branch that it goes into."""


class UnacceptedWork:
    """Looks for what comes along, among all lifecycles of one repository."""

    def __init__(self, store: SqliteStore, branches: Branches) -> None:
        self._store = store
        self._branches = branches

    async def of_record(self, record: AgentLifecycle) -> tuple[Along, ...]:
        """Return what comes along with completed work; nothing for any other."""
        work, into = record.work, str(record.facts.get("base_branch", ""))
        if not isinstance(work, Completed) or not work.head or not into:
            return ()
        base = await self._branches.head(into)
        if base is None:
            return ()
        (found,) = await self.of((MergeCandidate(record.agent_id, work.head, base),))
        return found

    async def of_branch(self, agent_id: str, head: str, into: str) -> tuple[Along, ...]:
        """Return what comes along with a commit that goes into this branch."""
        base = await self._branches.head(into)
        if base is None or not head:
            return ()
        (found,) = await self.of((MergeCandidate(agent_id, head, base),))
        return found

    async def of(self, pulls: Sequence[MergeCandidate]) -> tuple[tuple[Along, ...], ...]:
        """Return for each what comes along, what has to be merged first in front."""
        known = await self._known()
        graphs: dict[str, Unmerged] = {}
        answers = []
        for pull in pulls:
            if pull.base not in graphs:
                heads = [each.head for each in pulls if each.base == pull.base]
                tips = {tip for other in known for tip in (*other.tips, other.base)}
                graphs[pull.base] = await self._branches.history.unmerged(
                    [*heads, *tips], pull.base
                )
            graph = graphs[pull.base]
            coming = graph.reach(pull.head)
            others = [other for other in known if other.along.agent_id != pull.agent_id]
            found = [other for other in others if other.brought_by(coming, graph)]
            # Whose work holds less was there first.
            found.sort(key=lambda other: min(len(graph.reach(tip)) for tip in other.tips))
            answers.append(tuple(other.along for other in found))
        return tuple(answers)

    async def _known(self) -> list[_Other]:
        """Return all lifecycles that were not accepted, with the commits that they were at."""
        tips = defaultdict(tuple, await self._branches.history.agent_tips())
        found = []
        async for record in self._store.every():
            refs = tips.pop(record.agent_id, ())
            base = str(record.facts.get("base_commit", ""))
            if record.work is None or isinstance(record.work, Accepted) or not base:
                continue
            rows = await self._store.attempts(record.agent_id)
            heads = (*refs, *(row.head_after for row in rows if row.head_after))
            if isinstance(record.work, Completed):
                heads = (record.work.head, *heads)
            along = Along(record.agent_id, _state(record), record.task_id)
            found.append(_Other(along, tuple(dict.fromkeys(heads)), base))
        return [*found, *(_Other(Along(agent, GONE), heads, "") for agent, heads in tips.items())]


@dataclass(frozen=True, slots=True)
class _Other:
    along: Along
    tips: tuple[str, ...]
    base: str
    """Where its work began; empty if nobody knows that any more."""

    def brought_by(self, coming: frozenset[str], graph: Unmerged) -> bool:
        if not self.base:
            return any(tip in coming for tip in self.tips)
        before = graph.reach(self.base)
        return any(commit in coming for tip in self.tips for commit in graph.line(tip, before))


def _state(record: AgentLifecycle) -> str:
    match record.work:
        case Completed():
            return DONE
        case Rejected(reason=Reason.PERSON):
            return REJECTED
        case Rejected():
            return GIVEN_UP
        case _:
            return UNDER_WAY


def refusal(what: str, along: Iterable[Along]) -> str:
    """Say why it is not merged, and what to do about it."""
    names = tuple(along)
    first = [each.agent_id for each in names if each.may_be_accepted]
    ways = [f"`loopwright accept {' '.join(first)}` first"] if first else []
    ways += ["take all of it with --with-dependencies"]
    listed = ", ".join(map(str, names))
    return f"{what} holds work of {listed}, which would come along; {', or '.join(ways)}"
