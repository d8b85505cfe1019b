"""What CI says about one commit, and the one rule that joins many checks into that word.

Must not ask anybody: providers bring the checks, this module only judges them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict, model_validator

from ci.checks import Check, CheckState
from ci.events import Excerpt  # noqa: TC001  # pydantic reads the annotation at run time

if TYPE_CHECKING:
    from collections.abc import Iterable


class VerdictStatus(StrEnum):
    """The verdict in one word; only `green` allows a merge."""

    GREEN = "green"
    RED = "red"
    PENDING = "pending"
    NONE = "none"


class FailedCheck(BaseModel):
    """A check that is red, with enough to mend it."""

    model_config = ConfigDict(frozen=True)

    name: str
    summary: str = ""
    excerpt: Excerpt = ""
    url: str = ""


class Verdict(BaseModel):
    """What CI says about the commit `sha`, and about no other commit."""

    model_config = ConfigDict(frozen=True)

    status: VerdictStatus
    sha: str
    passed: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    failed: tuple[FailedCheck, ...] = ()
    summary: str = ""

    @model_validator(mode="after")
    def _says_what_its_checks_say(self) -> Self:
        expected = _status(self.passed, self.pending, self.failed)
        if self.status is not expected:
            raise ValueError(f"a verdict on these checks is {expected}, not {self.status}")
        return self


def judge_checks(sha: str, checks: Iterable[Check]) -> Verdict:
    """Judge a commit by what a forge says of its checks and statuses."""
    by_state: dict[CheckState, list[Check]] = {state: [] for state in CheckState}
    for check in checks:
        by_state[check.state].append(check)
    return judge(
        sha,
        passed=tuple(check.name for check in by_state[CheckState.PASSED]),
        pending=tuple(check.name for check in by_state[CheckState.PENDING]),
        failed=tuple(
            FailedCheck(
                name=check.name,
                summary=check.summary or check.how,
                excerpt=check.excerpt,
                url=check.url,
            )
            for check in by_state[CheckState.FAILED]
        ),
    )


def checks_of(verdict: Verdict) -> tuple[Check, ...]:
    """Return the checks that a verdict was made from."""
    return (
        *(
            Check(
                name=each.name,
                state=CheckState.FAILED,
                summary=each.summary,
                excerpt=each.excerpt,
                url=each.url,
            )
            for each in verdict.failed
        ),
        *(Check(name=name, state=CheckState.PENDING) for name in verdict.pending),
        *(Check(name=name, state=CheckState.PASSED) for name in verdict.passed),
    )


def judge(
    sha: str,
    *,
    passed: tuple[str, ...] = (),
    pending: tuple[str, ...] = (),
    failed: tuple[FailedCheck, ...] = (),
    summary: str = "",
) -> Verdict:
    """Join the checks of a commit: one red makes it red, no check at all never makes it green."""
    return Verdict(
        status=_status(passed, pending, failed),
        sha=sha,
        passed=passed,
        pending=pending,
        failed=failed,
        summary=summary or _counted(passed, pending, failed),
    )


def _status(
    passed: tuple[str, ...], pending: tuple[str, ...], failed: tuple[FailedCheck, ...]
) -> VerdictStatus:
    if failed:
        return VerdictStatus.RED
    if pending:
        return VerdictStatus.PENDING
    return VerdictStatus.GREEN if passed else VerdictStatus.NONE


def _counted(
    passed: tuple[str, ...], pending: tuple[str, ...], failed: tuple[FailedCheck, ...]
) -> str:
    named = [
        f"{len(names)} {word}: {', '.join(names)}"
        for word, names in (
            ("failed", [check.name for check in failed]),
            ("pending", list(pending)),
            ("passed", list(passed)),
        )
        if names
    ]
    return "; ".join(named) or "no checks"
