"""What the kit says about an agent program: one verdict per case, and all of them together.

Owns the forms. Pure; must not know what a case does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class Mark(StrEnum):
    """The result of a case."""

    PASS = "pass"  # noqa: S105  # no password
    FAIL = "fail"
    NOT_PROVOKED = "not provoked"
    """What the case is about did not happen, so nothing is known."""


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """What one case found."""

    mark: Mark
    why: str
    """One line."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """The facts it was judged by, as JSON values."""


def passed(why: str, **evidence: Any) -> CaseVerdict:
    """Return a pass."""
    return CaseVerdict(Mark.PASS, why, evidence)


def failed(why: str, **evidence: Any) -> CaseVerdict:
    """Return a failure; `why` says what was seen and what is expected."""
    return CaseVerdict(Mark.FAIL, why, evidence)


def not_provoked(why: str, **evidence: Any) -> CaseVerdict:
    """Return that nothing can be said, and why."""
    return CaseVerdict(Mark.NOT_PROVOKED, why, evidence)


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict of one case, and how long it took."""

    case: str
    verdict: CaseVerdict
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "case": self.case,
            "verdict": str(self.verdict.mark),
            "why": self.verdict.why,
            "evidence": dict(self.verdict.evidence),
            "seconds": round(self.seconds, 2),
        }


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """All verdicts on one agent program."""

    agent: str
    version: str
    """'' where it is not known."""
    results: tuple[Result, ...]

    @property
    def conforms(self) -> bool:
        """Whether nothing failed."""
        return not self.count(Mark.FAIL)

    def count(self, mark: Mark) -> int:
        """Count the cases with this result."""
        return sum(each.verdict.mark is mark for each in self.results)

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "agent": self.agent,
            "version": self.version or None,
            "conforms": self.conforms,
            "passed": self.count(Mark.PASS),
            "failed": self.count(Mark.FAIL),
            "not_provoked": self.count(Mark.NOT_PROVOKED),
            "cases": [each.to_json() for each in self.results],
        }
