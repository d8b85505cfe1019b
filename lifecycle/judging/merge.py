"""Merges accepted work into its base: exactly the judged commit, or nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ci.errors import ProviderError
from ci.interface import MergeTerms, PullRequestState
from lifecycle.base_commits import bring_work, needs
from lifecycle.judging.merge_gates import MergeGates
from lifecycle.judging.unaccepted_work import DONE, Along, UnacceptedWork, refusal
from lifecycle.machine import events as on
from lifecycle.machine.states import Completed
from lifecycle.shortage_retry import text_of
from runtime.errors import RuntimeFault
from runtime.shortage import shortage_of

if TYPE_CHECKING:
    from ci.interface import PullRequest
    from lifecycle.judging.gates import GateRunner
    from lifecycle.machine import effects as do
    from lifecycle.machine.events import Event
    from lifecycle.record import AgentLifecycle
    from lifecycle.services import MachineServices
    from lifecycle.working_copy import LocalCopy
    from runtime.branches import BranchMerge

IN_BASE = (
    "the work of {agent} is in {into} already, as {commit}; to reject it would not take it out: "
    "undo it with git (`git revert -m 1 {commit}` reverts a merge), or let `loopwright accept "
    "{agent}` record it"
)
TRIES = 5
"""How often a merge is repeated because its base moved while it was verified."""


def _ends(local: LocalCopy) -> tuple[str, str]:
    """Return the branch of the work, and the one that it goes into."""
    facts = local.record.facts
    return str(facts.get("branch", "")), str(facts.get("base_branch", ""))


async def in_base(machine: MachineServices, record: AgentLifecycle) -> str:
    """Say why completed work cannot be rejected any more: a merge of other work held it."""
    work, into = record.work, str(record.facts.get("base_branch", ""))
    if not isinstance(work, Completed) or not work.head or not into or work.merging:
        return ""
    commit = await machine.branches.history.merged_as(work.head, into)
    if commit is None or work.head == record.facts.get("base_commit"):
        return ""
    return IN_BASE.format(agent=record.agent_id, into=into, commit=commit[:12])


def _is_history(found: PullRequest, head: str) -> bool:
    """Tell whether a pull request is over and was not about this commit."""
    merged = found.state is PullRequestState.MERGED
    return found.state is PullRequestState.CLOSED or (merged and found.head_sha != head)


def _merge_message(local: LocalCopy) -> str:
    task = local.task
    title = f": {task.title}" if task.title else ""
    return f"Merge {task.id}{title}\n\nWork of {local.agent_id}, accepted after its gates passed."


class Merger:
    """Merges for all lifecycles of one repository."""

    def __init__(self, machine: MachineServices, gates: GateRunner) -> None:
        self._machine, self._shared = machine, machine.shared
        self._gates = MergeGates(machine, gates)
        self._turn = asyncio.Lock()
        """One after the other: each merge is judged on top of the one before."""
        self._comes_along = UnacceptedWork(machine.shared.store, machine.branches)
        self._ends = False
        """Nobody waits for room on the machine any more."""

    def break_off(self) -> None:
        """End what is being judged before a merge; the order stays for the next runner."""
        self._ends = True
        self._gates.break_off()

    async def merge(self, local: LocalCopy, effect_id: str, order: do.MergeBranch) -> Event:
        """Merge exactly the judged commit into its base, or change nothing."""
        try:
            async with self._turn:
                return await self._merge(local, effect_id, order)
        except RuntimeFault as error:
            if shortage_of(error) and not self._ends:
                raise
            return self._refused(text_of(error))

    async def _merge(self, local: LocalCopy, effect_id: str, order: do.MergeBranch) -> Event:
        head = order.head
        branch, base = _ends(local)
        machine = self._machine
        await bring_work(self._shared.store, local.record, machine.bring, machine.work_watch)
        if not base:
            to_do = f"{branch} was started from no branch: switch to one, `git merge {branch}`"
            return await self._by_hand(head, to_do)
        along = () if order.along else await self._along(local, head, base)
        if along:
            names = tuple(each.agent_id for each in along)
            return on.MergeFailed(at=self._now(), text=refusal(branch, along), along=names)
        there = await self._merge_there(branch, base, head)
        return there or await self._settle(local, effect_id, order)

    async def _settle(self, local: LocalCopy, effect_id: str, order: do.MergeBranch) -> Event:
        branch, base = _ends(local)
        outcome = await self._merge_here(local, effect_id, order)
        if isinstance(outcome, on.MergeFailed):
            return outcome
        if outcome.merged and outcome.commit is not None:
            return on.MergeSucceeded(at=self._now(), commit=outcome.commit)
        if lost := await self._lost(local, branch, base, order.head):
            return await self._by_hand(order.head, lost)
        return on.MergeFailed(at=self._now(), text=outcome.reason, conflicts=outcome.conflicts)

    async def _merge_here(
        self, local: LocalCopy, effect_id: str, order: do.MergeBranch
    ) -> BranchMerge | on.MergeFailed:
        """Make the merge, judge it, and only then move the base; begin again if that moved."""
        branch, base = _ends(local)
        branches, tries = self._machine.branches, TRIES
        message = self._shared.masker.mask(_merge_message(local))
        while True:
            prepared = await branches.prepare(
                branch, base, message=message, expected_head=order.head or None
            )
            if order.verify and prepared.is_new:
                red = await self._gates.objection(local, effect_id, prepared)
                if red is not None:
                    return red
            outcome = await branches.carry_out(prepared)
            tries -= 1
            if not outcome.moved or not tries:
                return outcome

    async def _along(self, local: LocalCopy, head: str, base: str) -> tuple[Along, ...]:
        """Return what would come along, and what it was to be built on and is not accepted."""
        found = await self._comes_along.of_branch(local.agent_id, head, base)
        known = {each.agent_id for each in found}
        needed = await self._shared.base_commits.unaccepted(
            needs(local.task.dependencies, local.record.work), base
        )
        wanted = (Along(each.agent_id, DONE, each.task_id) for each in needed)
        return (*found, *(each for each in wanted if each.agent_id not in known))

    async def _lost(self, local: LocalCopy, branch: str, base: str, head: str) -> str:
        """Say what a person does about a branch that is not there any more, if one is not."""
        for name, commit in ((base, local.record.facts.get("base_commit", "")), (branch, head)):
            if await self._machine.branches.head(name) is None:
                return f"there is no branch {name} any more: `git branch {name} {commit}`"
        return ""

    async def _by_hand(self, head: str, to_do: str) -> Event:
        """Count what is in the branch that the user has checked out as merged, or say what to do.

        Only where there is nothing to merge or to merge into: else the base is where it goes.
        """
        found = await self._machine.branches.held_by(head) if head else None
        if found is None:
            return self._refused(f"{to_do}, then accept again")
        into, commit = found
        return on.MergeSucceeded(at=self._now(), commit=commit, into=into)

    async def _merge_there(self, branch: str, base: str, head: str) -> Event | None:
        """Merge through the pull request where a forge keeps it; None when there is none."""
        ci = self._shared.ci
        if ci is None or not ci.looks:
            return None
        try:
            found = await ci.find_pull_request(branch)
            if found is None or _is_history(found, head):
                return None
            if found.base != base:
                text = f"pull request {found.url} goes into {found.base}, not into {base}"
                return self._refused(text)
            # What comes along was looked at here, and is what the person wants.
            result = await ci.merge(found.number, expected_sha=head, terms=MergeTerms(along=True))
        except ProviderError as error:
            return self._refused(str(error))
        if not result.merged:
            return self._refused(result.reason)
        return on.MergeSucceeded(at=self._now(), commit=result.commit or head)

    def _refused(self, why: str) -> on.MergeFailed:
        return on.MergeFailed(at=self._now(), text=why)

    def _now(self) -> float:
        return self._shared.clock.now()
