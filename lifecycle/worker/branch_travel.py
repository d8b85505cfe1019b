"""Brings the branches of lifecycles to this machine, and what was made here to all others.

The remote is where all machines look: a branch is pushed only onto the head that was seen there
last, and saved work goes there too. Must not decide what an attempt's end means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.projection import head_now
from runtime.errors import RuntimeFault, ShortageError, WorkspaceError
from runtime.git.ownership import GIVEN_REFS, SAVED_REFS
from runtime.workspaces.adoption import BranchLine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from lifecycle.ports import Branches
    from lifecycle.worker.assignment import Assignment
    from lifecycle.working_copy import LocalCopy
    from runtime.remote.remote import GitRemote
    from runtime.workspace import WorkspaceManager

GONE = (
    "{branch} is not at the remote any more, and its last commit {head} is not on this machine: "
    "push it there again from a clone that has it: `git push origin {head}:refs/heads/{branch}`"
)
MOVED = (
    "somebody else moved {branch} at the remote to {there}; ours is saved there as {ref}. Merge "
    "it into theirs: `git fetch origin {branch} {ref}`, merge both, and push that to {branch}"
)


class OutOfReachError(ShortageError):
    """The remote cannot be reached or refuses us: nothing is given up for that."""


class MovedElsewhereError(WorkspaceError):
    """Somebody else moved the agent's branch at the remote."""


async def no_header() -> dict[str, str]:
    """Sign in by what git itself has."""
    return {}


class BranchTravel:
    """The way of one machine's branches from and to the remote."""

    def __init__(
        self,
        workspaces: WorkspaceManager,
        branches: Branches,
        remote: GitRemote,
        header: Callable[[], Awaitable[Mapping[str, str]]] = no_header,
    ) -> None:
        self._workspaces = workspaces
        self._branches = branches
        self._remote = remote
        self._header = header
        self._seen: dict[str, str | None] = {}
        """Where each agent's branch was there when we looked last."""
        self._kept: dict[str, dict[str, str]] = {}
        """Saved refs of each agent that are there."""

    async def bring(self, assignment: Assignment, local: LocalCopy, *, latest: bool) -> None:
        """Have the lifecycle's commits and workspace here, as they are at the remote.

        OutOfReachError where that cannot be found out now.
        """
        agent, branch = local.agent_id, _branch(local)
        try:
            header = await self._header()
            await self._remote.fetch_refs(f"{GIVEN_REFS}{agent}/", header=header)
            await self._follow(assignment.target, header)
            there = await self._remote.fetch(branch, header=header)
        except ShortageError:
            raise
        except RuntimeFault as error:
            raise OutOfReachError(str(error)) from error
        self._seen[agent] = there
        base = str(local.record.facts.get("base_commit") or "")
        if not base:
            await self._keep_former(local, there)
            return
        head = there or await self._last_here(local, branch, base, latest=latest)
        into = str(local.record.facts.get("base_branch") or "") or None
        line = BranchLine(head=head, base_commit=base, base_branch=into)
        local.workspace = await self._workspaces.adopt(agent, line, local.attempt, latest=latest)

    async def _follow(self, target: str, header: Mapping[str, str]) -> None:
        """Have the branch that the work goes into here as it is there, if nothing is lost by it."""
        newest = await self._remote.fetch(target, header=header) if target else None
        if newest is not None:
            await self._remote.follow(target, newest)

    async def _keep_former(self, local: LocalCopy, there: str | None) -> None:
        """Save what an earlier lifecycle of the agent left; work that begins takes its place."""
        agent = local.agent_id
        await self._workspaces.remove(agent, drop_branch=True, attempt=local.attempt)
        if there is not None:
            await self._push_refs(agent, {f"{SAVED_REFS}{agent}/head-{there[:12]}": there})

    async def _last_here(self, local: LocalCopy, branch: str, base: str, *, latest: bool) -> str:
        """Return the head of a branch that is not at the remote."""
        known = head_now(local.ledger[-1] if local.ledger else None, local.record) or base
        here = await self._branches.head(branch)
        if here is not None and (latest or await self._branches.history.holds(here, known)):
            return here
        if await self._branches.commit_exists(known):
            return known
        raise WorkspaceError(GONE.format(branch=branch, head=known))

    async def starting_point(self, base: str | None) -> tuple[str, str]:
        """Return the commit where work with this base starts here, and its branch, if it is one."""
        start = await self._workspaces.starting_point(base)
        return start.commit, start.branch or ""

    async def give(self, agent: str, commits: Iterable[str]) -> None:
        """Have commits at the remote, for the machine that the agent is assigned to."""
        known = [each for each in commits if await self._branches.commit_exists(each)]
        await self._push_refs(agent, {f"{GIVEN_REFS}{agent}/{each}": each for each in known})

    def pushed(self, agent: str) -> str:
        """Return the commit where the agent's branch was there when we looked last, if it was."""
        return self._seen.get(agent) or ""

    async def publish(self, local: LocalCopy) -> None:
        """Push the branch, and what is saved of the agent's work.

        OutOfReachError where the remote does not take it now; MovedElsewhereError where somebody
        else moved the branch there: ours is saved there, too.
        """
        agent, branch = local.agent_id, _branch(local)
        head, seen = await self._branches.head(branch), self._seen.get(agent)
        moved = None
        if head is not None and head != seen and await self._is_work(local, head, seen):
            moved = await self._push(local, branch, head, seen)
        saved = await self._workspaces.saved_refs(agent)
        known = self._kept.setdefault(agent, {})
        await self._push_refs(
            agent, {ref: sha for ref, sha in saved.items() if known.get(ref) != sha}
        )
        if moved is not None:
            raise moved

    async def fetch(self, agent: str) -> str | None:
        """Have the commits of the agent's branch here, and return where it is at the remote."""
        try:
            return await self._remote.fetch(f"agent/{agent}", header=await self._header())
        except ShortageError:
            raise
        except RuntimeFault as error:
            raise OutOfReachError(str(error)) from error

    async def drop(self, agent: str, *, branch: bool) -> None:
        """Have nothing at the remote any more of a lifecycle that is over but its saved refs.

        The branch is saved there, too; without `branch` it stays, as a forge may need it.
        OutOfReachError as with `publish`.
        """
        there = await self.fetch(agent) if branch else None
        try:
            header = await self._header()
            if there is not None:
                await self._push_refs(agent, {f"{SAVED_REFS}{agent}/head-{there[:12]}": there})
                name = f"agent/{agent}"
                outcome = await self._remote.remove(name, expected=there, header=header)
                if not outcome.done:
                    raise OutOfReachError(outcome.reason)
            await self._remote.remove_refs(f"{GIVEN_REFS}{agent}/", header=header)
        except ShortageError:
            raise
        except RuntimeFault as error:
            raise OutOfReachError(str(error)) from error
        self._seen.pop(agent, None)
        self._kept.pop(agent, None)

    async def forget(self, agent: str) -> None:
        """Keep nothing here of what this machine was given for a lifecycle that is over."""
        await self._remote.forget_refs(f"{GIVEN_REFS}{agent}/")
        self._seen.pop(agent, None)
        self._kept.pop(agent, None)

    async def rescue(self, agent: str) -> None:
        """Push what is only here of an agent's work that this worker lost, beside its branch.

        The branch itself may be another worker's by now. OutOfReachError as with `publish`.
        """
        there = await self.fetch(agent)
        head = await self._branches.head(f"agent/{agent}")
        refs = await self._workspaces.saved_refs(agent)
        if head is not None and not (there and await self._remote.holds(there, head)):
            refs[f"{SAVED_REFS}{agent}/head-{head[:12]}"] = head
        await self._push_refs(agent, refs)

    async def _is_work(self, local: LocalCopy, head: str, seen: str | None) -> bool:
        """Tell whether there is anything to push: not before the first commit."""
        return seen is not None or head != local.record.facts.get("base_commit")

    async def _push(
        self, local: LocalCopy, branch: str, head: str, seen: str | None
    ) -> MovedElsewhereError | None:
        header, agent = await self._header(), local.agent_id
        outcome = await self._remote.push(branch, head, expected=seen, header=header)
        if outcome.done:
            self._seen[agent] = head
            return None
        if not outcome.beaten:
            raise OutOfReachError(outcome.reason)
        there = await self.fetch(agent)
        if there is None:  # it was removed there, so nothing is overwritten
            if seen is None:
                raise OutOfReachError(outcome.reason)
            return await self._push(local, branch, head, None)
        if await self._remote.holds(there, head):
            self._seen[agent] = there
            return None  # it was built upon, so nothing of ours is missing
        ref = f"{SAVED_REFS}{agent}/head-{head[:12]}"
        await self._push_refs(agent, {ref: head})
        return MovedElsewhereError(MOVED.format(branch=branch, there=there, ref=ref))

    async def _push_refs(self, agent: str, refs: Mapping[str, str]) -> None:
        if not refs:
            return
        outcome = await self._remote.push_refs(refs, header=await self._header())
        if not outcome.done:
            raise OutOfReachError(outcome.reason)
        self._kept.setdefault(agent, {}).update(refs)


def _branch(local: LocalCopy) -> str:
    return str(local.record.facts.get("branch") or f"agent/{local.agent_id}")
