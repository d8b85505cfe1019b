"""Merges accepted work into its base: exactly the judged commit, or nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ci.errors import ProviderError
from ci.interface import MergeTerms, PullRequestState
from lifecycle.bases import needs
from lifecycle.judging.along import DONE, Along, ComesAlong, refusal
from lifecycle.judging.mergegates import MergeGates
from lifecycle.machine import events as on
from lifecycle.machine.states import Completed
from lifecycle.shortfall import text_of
from runtime.errors import RuntimeFault
from runtime.shortage import shortage_of

if TYPE_CHECKING:
    from ci.interface import PullRequest
    from lifecycle.case import Case
    from lifecycle.judging.gates import GateRunner
    from lifecycle.machine import effects as do
    from lifecycle.machine.events import Event
    from lifecycle.parts import Parts
    from lifecycle.record import AgentLifecycle
    from runtime.branches import MergeOutcome

IN_BASE = (
    "the work of {agent} is in {into} already, as {commit}; to reject it would not take it out: "
    "undo it with git (`git revert -m 1 {commit}` reverts a merge), or let `loopwright accept "
    "{agent}` record it"
)
TRIES = 5
"""Times that a merge is made anew because its base moved while it was verified."""


def _ends(case: Case) -> tuple[str, str]:
    """Return the branch of the work, and the one that it goes into."""
    facts = case.record.facts
    return str(facts.get("branch", "")), str(facts.get("base_branch", ""))


async def in_base(parts: Parts, record: AgentLifecycle) -> str:
    """Say why completed work cannot be rejected any more: a merge of other work held it."""
    work, into = record.work, str(record.facts.get("base_branch", ""))
    if not isinstance(work, Completed) or not work.head or not into or work.merging:
        return ""
    commit = await parts.branches.history.merged_as(work.head, into)
    if commit is None or work.head == record.facts.get("base_commit"):
        return ""
    return IN_BASE.format(agent=record.agent_id, into=into, commit=commit[:12])


def _is_history(found: PullRequest, head: str) -> bool:
    """Tell whether a pull request is over and was not about this commit."""
    merged = found.state is PullRequestState.MERGED
    return found.state is PullRequestState.CLOSED or (merged and found.head_sha != head)


def _merge_message(case: Case) -> str:
    title = f": {case.task.title}" if case.task.title else ""
    return (
        f"Merge {case.task.id}{title}\n\nWork of {case.agent_id}, accepted after its gates passed."
    )


class Merger:
    """Merges for all lifecycles of one repository."""

    def __init__(self, parts: Parts, gates: GateRunner) -> None:
        self._parts = parts
        self._gates = MergeGates(parts, gates)
        self._turn = asyncio.Lock()
        """One after the other: each merge is judged on top of the one before."""
        self._comes_along = ComesAlong(parts.store, parts.branches)
        self._ends = False
        """Nobody waits for room on the machine any more."""

    def break_off(self) -> None:
        """End what is being judged before a merge; the order stays for the next runner."""
        self._ends = True
        self._gates.break_off()

    async def merge(self, case: Case, effect_id: str, order: do.MergeBranch) -> Event:
        """Merge exactly the judged commit into its base, or change nothing."""
        try:
            async with self._turn:
                return await self._merge(case, effect_id, order)
        except RuntimeFault as error:
            if shortage_of(error) and not self._ends:
                raise
            return self._refused(text_of(error))

    async def _merge(self, case: Case, effect_id: str, order: do.MergeBranch) -> Event:
        head = order.head
        branch, base = _ends(case)
        if not base:
            to_do = f"{branch} was started from no branch: switch to one, `git merge {branch}`"
            return await self._by_hand(head, to_do)
        along = () if order.along else await self._along(case, head, base)
        if along:
            names = tuple(each.agent_id for each in along)
            return on.MergeFailed(at=self._now(), text=refusal(branch, along), along=names)
        there = await self._merge_there(branch, base, head)
        return there or await self._settle(case, effect_id, order)

    async def _settle(self, case: Case, effect_id: str, order: do.MergeBranch) -> Event:
        branch, base = _ends(case)
        outcome = await self._merge_here(case, effect_id, order)
        if isinstance(outcome, on.MergeFailed):
            return outcome
        if outcome.merged and outcome.commit is not None:
            return on.MergeSucceeded(at=self._now(), commit=outcome.commit)
        if lost := await self._lost(case, branch, base, order.head):
            return await self._by_hand(order.head, lost)
        return on.MergeFailed(at=self._now(), text=outcome.reason, conflicts=outcome.conflicts)

    async def _merge_here(
        self, case: Case, effect_id: str, order: do.MergeBranch
    ) -> MergeOutcome | on.MergeFailed:
        """Make the merge, judge it, and only then move the base; begin again if that moved."""
        branch, base = _ends(case)
        branches, tries = self._parts.branches, TRIES
        message = self._parts.masker.mask(_merge_message(case))
        while True:
            prepared = await branches.prepare(
                branch, base, message=message, expected_head=order.head or None
            )
            if order.verify and prepared.is_new:
                red = await self._gates.objection(case, effect_id, prepared)
                if red is not None:
                    return red
            outcome = await branches.carry_out(prepared)
            tries -= 1
            if not outcome.moved or not tries:
                return outcome

    async def _along(self, case: Case, head: str, base: str) -> tuple[Along, ...]:
        """Return what would come along, and what it was to be built on and is not accepted."""
        found = await self._comes_along.of_branch(case.agent_id, head, base)
        known = {each.agent_id for each in found}
        needed = await self._parts.bases.unaccepted(
            needs(case.task.dependencies, case.record.work), base
        )
        wanted = (Along(each.agent_id, DONE, each.task_id) for each in needed)
        return (*found, *(each for each in wanted if each.agent_id not in known))

    async def _lost(self, case: Case, branch: str, base: str, head: str) -> str:
        """Say what a person does about a branch that is not there any more, if one is not."""
        for name, commit in ((base, case.record.facts.get("base_commit", "")), (branch, head)):
            if await self._parts.branches.head(name) is None:
                return f"there is no branch {name} any more: `git branch {name} {commit}`"
        return ""

    async def _by_hand(self, head: str, to_do: str) -> Event:
        """Count what is in the branch that the user has checked out as merged, or say what to do.

        Only where there is nothing to merge or to merge into: else the base is where it goes.
        """
        found = await self._parts.branches.held_by(head) if head else None
        if found is None:
            return self._refused(f"{to_do}, then accept again")
        into, commit = found
        return on.MergeSucceeded(at=self._now(), commit=commit, into=into)

    async def _merge_there(self, branch: str, base: str, head: str) -> Event | None:
        """Merge through the pull request where a forge keeps it; None when there is none."""
        ci = self._parts.ci
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
        return self._parts.clock.now()
