"""Triage of red checks before an agent is woken for them.

Owns the questions (is the base red as well, did a rerun pass, is it our commit) and the texts of
the answers. The caller decides whether an agent is woken.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.errors import ForgeError, GarbledError, UnreachableError
from ci.events import Check, CheckState
from ci.forge.counting import counting
from ci.forge.merge_rules import PASSING_HINDRANCES
from ci.verdict import VerdictStatus, failed_of, judge, judge_checks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ci.forge.memory import Memory
    from ci.forge.merge_rules import Rules
    from ci.forge.protocol import BranchRules, Forge, ForgePull
    from ci.verdict import Verdict

    Beside = Callable[[str], Awaitable[tuple[Check, ...]]]

EXPLAINED = 5
"""Failed checks whose logs are fetched; of further ones only the names are given."""
RERUN_BEGINS_WITHIN = 120.0
"""Seconds after which a rerun without any sign has not started at all."""
LOGS_KEPT = 200
AWAITED = "the first check"
RULES_HOLD = 600.0
"""Seconds for which the rules of a branch, and whether anything checks it, are reused."""


@dataclass(frozen=True, slots=True)
class TriageResult:
    """A red verdict with its likely cause."""

    text: str
    details: tuple[Check, ...]
    of_the_base: bool
    """Every failed check fails on the base as well."""


class CheckTriage:
    """Judges commits by the checks that a forge reports."""

    def __init__(  # one parameter for each source
        self,
        forge: Forge,
        memory: Memory,
        rules: Callable[[], Rules],
        now: Callable[[], float],
        *,
        beside: Beside,
    ) -> None:
        """`beside` returns the checks of other judges, beside the forge's own."""
        self._forge = forge
        self._beside = beside
        self._memory = memory
        self._rules = rules
        self._now = now
        self._logs: dict[tuple[str, str], Check] = {}
        self._branches: dict[str, tuple[BranchRules, float]] = {}
        self._checked: dict[str, tuple[bool, float]] = {}

    async def checks(self, sha: str, pull: ForgePull | None = None) -> tuple[Check, ...]:
        """Return the checks of exactly this commit, and which of them count.

        The head of a pull request is also waited for by the checks that its base requires.
        """
        await self._memory.saw(sha)
        found = await self._forge.checks(sha)
        branch = await self._branch_rules(pull.base if pull else "")
        counted = counting(found, branch, self._rules(), awaits=pull is not None)
        failed = [check.name for check in failed_of(counted)]
        passed = [check.name for check in counted if check.state is CheckState.PASSED]
        await self._memory.judged(sha, failed, passed)
        return (*counted, *await self._beside(sha))

    def verdict(self, sha: str, checks: Sequence[Check]) -> Verdict:
        """Judge them; a commit without checks is pending until its grace period ends."""
        if any(check.counts for check in checks) or self._now() >= self.grace_end(sha):
            verdict = judge_checks(sha, checks)
            enough = verdict.status is VerdictStatus.NONE and self._rules().require_ci is False
            return verdict.model_copy(update={"enough": enough})
        return judge(sha, pending=(AWAITED,), summary="no check has started yet")

    async def of_pull(self, pull: ForgePull) -> tuple[Verdict, tuple[Check, ...]]:
        """Return the verdict on the head of a pull request, and the checks that it is made of."""
        checks = await self.checks(pull.head_sha, pull)
        verdict = self.verdict(pull.head_sha, checks)
        if verdict.status is VerdictStatus.NONE and self._rules().require_ci == "auto":
            enough = await self._none_is_enough(pull)
            verdict = verdict.model_copy(update={"enough": enough})
        return verdict, checks

    async def _none_is_enough(self, pull: ForgePull) -> bool:
        """Return whether the forge calls it mergeable, and nothing checks its base."""
        if not pull.mergeable or pull.hindrance not in PASSING_HINDRANCES:
            return False
        checked, until = self._checked.get(pull.base, (True, 0.0))
        if self._now() >= until:
            checked = await self._forge.is_checked(pull.base)
            self._checked[pull.base] = checked, self._now() + RULES_HOLD
        return not checked

    async def _branch_rules(self, base: str) -> BranchRules:
        """Return the rules of a base, else of the default branch; asked for now and then."""
        now = self._now()
        known, until = self._branches.get(base, (None, 0.0))
        if known is None or (now >= until and self._forge.budget.pause(now) <= 0):
            branch = base or await self._forge.default_branch()
            known = await self._forge.branch_rules(branch)
            self._branches[base] = self._branches[branch] = known, now + RULES_HOLD
        return known

    def grace_end(self, sha: str) -> float:
        """Return the end of the grace period in which a commit without checks may get some."""
        return self._memory.since(sha) + self._rules().checks_grace

    async def second_chance(self, sha: str, checks: Sequence[Check]) -> Verdict | None:
        """Rerun failed checks, if enabled or known as flaky; None when they are finally red."""
        rules, failed = self._rules(), failed_of(checks)
        flaky = rules.rerun_flaky and all(self._memory.flaked(check.name) for check in failed)
        if not rules.rerun_red and not flaky:
            return None
        refs = [check.ref or check.name for check in failed]
        before = self._memory.rerun(sha)
        if before is None:
            # Recorded first: what was rerun and not answered must not run once more at each look.
            await self._memory.ran_again(sha, refs)
            if await self._begins(sha, failed):
                return self._waits(sha, failed)
            await self._memory.ran_again(sha, ())
            return None
        at, known = before
        if set(refs) <= set(known) and self._now() < at + RERUN_BEGINS_WITHIN:
            return self._waits(sha, failed)
        return None

    async def _begins(self, sha: str, failed: Sequence[Check]) -> bool:
        try:
            return await self._forge.rerun(sha, failed)
        except (UnreachableError, GarbledError):
            raise  # they may run nevertheless
        except ForgeError:
            await self._memory.ran_again(sha, ())
            raise

    def _waits(self, sha: str, failed: Sequence[Check]) -> Verdict:
        names = tuple(check.name for check in failed)
        told = f"rerun: {', '.join(names)}"
        if flaky := self._flaky(failed):
            told = f"{told}; {flaky}"
        return judge(sha, pending=names, summary=told)

    def _flaky(self, failed: Sequence[Check]) -> str:
        """Say which of the checks passed before after they had failed on the same commit."""
        times = {check.name: self._memory.flaked(check.name) for check in failed}
        known = [f"{name} ({count}x)" for name, count in times.items() if count]
        return f"known to fail and then pass on the same commit: {', '.join(known)}" * bool(known)

    def ran_again(self, sha: str) -> bool:
        """Return whether failed checks of the commit were rerun."""
        found = self._memory.rerun(sha)
        return found is not None and bool(found[1])

    async def explained(self, sha: str, checks: Sequence[Check]) -> tuple[Check, ...]:
        """Return the failed checks, the first few with excerpts of their logs."""
        failed = failed_of(checks)
        told = await asyncio.gather(*(self._explained(sha, each) for each in failed[:EXPLAINED]))
        return (*told, *failed[EXPLAINED:])

    async def understand(
        self, verdict: Verdict, checks: Sequence[Check], *, base: str
    ) -> TriageResult:
        """Find out why it is red and whether the base is the cause."""
        sha, failed = verdict.sha, failed_of(checks)
        explained = (await self.explained(sha, failed))[:EXPLAINED]
        on_base, base_text = await self._base_red({check.name for check in failed}, sha, base)
        said = [verdict.summary + "."]
        if self.ran_again(sha):
            said.append("They failed again when they were rerun.")
        if flaky := self._flaky(failed):
            said.append(f"{flaky[0].upper()}{flaky[1:]}.")
        if on_base:
            said.append(base_text)
        if len(failed) > EXPLAINED:
            rest = ", ".join(check.name for check in failed[EXPLAINED:])
            explained = (*explained, Check(name=f"also failed: {rest}", state=CheckState.FAILED))
        return TriageResult(
            text=" ".join(said),
            details=explained,
            of_the_base=bool(failed) and on_base >= {check.name for check in failed},
        )

    async def _explained(self, sha: str, check: Check) -> Check:
        if not check.ref:
            return check  # not the forge's own check: it is complete already
        key = (sha, check.ref)
        if key in self._logs:
            return self._logs[key]
        try:
            explained = await self._forge.explain(sha, check)
        except ForgeError as error:
            # The names alone justify an event; an unreadable log must not delay it.
            return check.model_copy(update={"excerpt": check.excerpt or f"(no log: {error})"})
        # Validated again, which cleans and cuts the log.
        told = self._logs[key] = Check.model_validate(explained.model_dump())
        while len(self._logs) > LOGS_KEPT:
            del self._logs[next(iter(self._logs))]
        return told

    async def _base_red(self, failed: set[str], sha: str, base: str) -> tuple[set[str], str]:
        try:
            branch = base or await self._forge.default_branch()
            head = await self._forge.head(branch)
            if head is None or head == sha:
                return set(), ""
            checks = await self._forge.checks(head)
        except ForgeError:
            return set(), ""
        both = failed & {check.name for check in checks if check.state is CheckState.FAILED}
        named = ", ".join(sorted(both))
        text = (
            f"On {branch} ({head[:12]}) the same checks are red: {named}; the cause may not be "
            "this branch."
        )
        return both, text if both else ""
