"""What CI says about one commit, and the one rule that combines many checks into a verdict.

Must not send requests: providers supply the checks, this module only judges them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Self

from pydantic import model_validator

from ci.events import Check, CheckState
from ci.json_model import JsonModel

if TYPE_CHECKING:
    from collections.abc import Iterable


class VerdictStatus(StrEnum):
    """The verdict in one word; only `green` allows a merge."""

    GREEN = "green"
    RED = "red"
    PENDING = "pending"
    NONE = "none"


class Verdict(JsonModel):
    """What CI says about the commit `sha`, and about no other commit."""

    status: VerdictStatus
    sha: str
    passed: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    failed: tuple[Check, ...] = ()
    summary: str = ""
    enough: bool = False
    """No check ran, and none is needed."""

    @model_validator(mode="after")
    def _says_what_its_checks_say(self) -> Self:
        expected = _status(self.passed, self.pending, self.failed)
        if self.status is not expected:
            raise ValueError(f"a verdict on these checks is {expected}, not {self.status}")
        return self


def judge_checks(sha: str, checks: Iterable[Check]) -> Verdict:
    """Judge a commit by what a forge says of its checks and statuses."""
    by_state: dict[CheckState, list[Check]] = {state: [] for state in CheckState}
    beside: list[str] = []
    for check in checks:
        if check.counts:
            by_state[check.state].append(check)
        else:
            beside.append(f"{check.name} ({check.how or check.state})")
    verdict = judge(
        sha,
        passed=tuple(check.name for check in by_state[CheckState.PASSED]),
        pending=tuple(check.name for check in by_state[CheckState.PENDING]),
        failed=tuple(map(_explained, by_state[CheckState.FAILED])),
    )
    if not beside:
        return verdict
    told = f"{verdict.summary}; not required: {', '.join(beside)}"
    return verdict.model_copy(update={"summary": told})


def failed_of(checks: Iterable[Check]) -> list[Check]:
    """Return the failed checks that count."""
    return [check for check in checks if check.counts and check.state is CheckState.FAILED]


def _explained(check: Check) -> Check:
    # The reference is for the forge that reported the check only.
    told = {"summary": check.summary or check.how, "how": "", "ref": ""}
    return check.model_copy(update=told)


def checks_of(verdict: Verdict) -> tuple[Check, ...]:
    """Return the checks that a verdict was made from."""
    return (
        *verdict.failed,
        *(Check(name=name, state=CheckState.PENDING) for name in verdict.pending),
        *(Check(name=name, state=CheckState.PASSED) for name in verdict.passed),
    )


def judge(
    sha: str,
    *,
    passed: tuple[str, ...] = (),
    pending: tuple[str, ...] = (),
    failed: tuple[Check, ...] = (),
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
    passed: tuple[str, ...], pending: tuple[str, ...], failed: tuple[Check, ...]
) -> VerdictStatus:
    if failed:
        return VerdictStatus.RED
    if pending:
        return VerdictStatus.PENDING
    return VerdictStatus.GREEN if passed else VerdictStatus.NONE


def _counted(passed: tuple[str, ...], pending: tuple[str, ...], failed: tuple[Check, ...]) -> str:
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
