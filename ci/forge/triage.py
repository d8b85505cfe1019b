"""Triage of red checks before an agent is woken for them.

Owns the questions (is the base red as well, did a rerun pass, is it our commit) and the texts of
the answers. The caller decides whether an agent is woken.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.errors import ForgeError
from ci.events import Check, CheckState
from ci.verdict import judge, judge_checks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ci.forge.memory import Memory
    from ci.forge.merge_rules import Rules
    from ci.forge.protocol import Forge
    from ci.verdict import Verdict

    Beside = Callable[[str], Awaitable[tuple[Check, ...]]]

EXPLAINED = 5
"""Failed checks whose logs are fetched; of further ones only the names are given."""
RERUN_BEGINS_WITHIN = 120.0
"""Seconds after which a rerun without any sign has not started at all."""
LOGS_KEPT = 200
AWAITED = "the first check"


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

    async def checks(self, sha: str) -> tuple[Check, ...]:
        """Return the checks of exactly this commit."""
        await self._memory.saw(sha)
        return (*await self._forge.checks(sha), *await self._beside(sha))

    def verdict(self, sha: str, checks: Sequence[Check]) -> Verdict:
        """Judge them; a commit without checks is pending until its grace period ends."""
        if checks or self._now() >= self.grace_end(sha):
            return judge_checks(sha, checks)
        return judge(sha, pending=(AWAITED,), summary="no check has started yet")

    def grace_end(self, sha: str) -> float:
        """Return the end of the grace period in which a commit without checks may get some."""
        return self._memory.since(sha) + self._rules().checks_grace

    async def second_chance(self, sha: str, checks: Sequence[Check]) -> Verdict | None:
        """Rerun failed checks, if enabled; None when they are finally red."""
        if not self._rules().rerun_red:
            return None
        failed = [check for check in checks if check.state is CheckState.FAILED]
        refs = [check.ref or check.name for check in failed]
        before = self._memory.rerun(sha)
        if before is None:
            begun = await self._forge.rerun(sha, failed)
            await self._memory.ran_again(sha, refs if begun else ())
            return self._waits(sha, failed) if begun else None
        at, known = before
        if set(refs) <= set(known) and self._now() < at + RERUN_BEGINS_WITHIN:
            return self._waits(sha, failed)
        return None

    def _waits(self, sha: str, failed: Sequence[Check]) -> Verdict:
        names = tuple(check.name for check in failed)
        return judge(sha, pending=names, summary=f"rerun: {', '.join(names)}")

    def ran_again(self, sha: str) -> bool:
        """Return whether failed checks of the commit were rerun."""
        found = self._memory.rerun(sha)
        return found is not None and bool(found[1])

    async def explained(self, sha: str, checks: Sequence[Check]) -> tuple[Check, ...]:
        """Return the failed checks, the first few with excerpts of their logs."""
        failed = [check for check in checks if check.state is CheckState.FAILED]
        told = await asyncio.gather(*(self._explained(sha, each) for each in failed[:EXPLAINED]))
        return (*told, *failed[EXPLAINED:])

    async def understand(self, sha: str, checks: Sequence[Check], *, base: str) -> TriageResult:
        """Find out why it is red and whether the base is the cause."""
        failed = [check for check in checks if check.state is CheckState.FAILED]
        explained = (await self.explained(sha, failed))[:EXPLAINED]
        on_base, base_text = await self._base_red({check.name for check in failed}, sha, base)
        said = [judge_checks(sha, checks).summary + "."]
        if self.ran_again(sha):
            said.append("They failed again when they were rerun.")
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
