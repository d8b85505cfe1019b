"""What a reviewer says of a commit: approval, or findings with their places. Values alone.

Must not know how a reviewer is asked, nor what follows from its answer.
"""

from __future__ import annotations

from lifecycle.machine.frozen import frozen

SEVERITIES = ("note", "minor", "major", "critical")
"""How grave a finding is, the mildest first."""
IN_DIFF, OUTSIDE, MISSING = "", "outside", "missing"
"""Where a finding points: at a changed line, at another one that exists, at nothing."""
PLACES = {IN_DIFF: "", OUTSIDE: "not in the diff", MISSING: "does not exist"}
"""The same in words."""


@frozen
class Finding:
    """One thing that a reviewer found."""

    severity: str
    text: str
    file: str = ""
    line: int = 0
    """Its number in the reviewed commit; 0 for the file as a whole."""
    place: str = IN_DIFF
    """What was found out about file and line: `IN_DIFF`, `OUTSIDE` or `MISSING`."""

    @property
    def where(self) -> str:
        """Its severity and its place, in words."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        said = f"{self.severity}, {place}" if place else self.severity
        return f"{said} ({PLACES[self.place]})" if self.place else said


@frozen
class Opinion:
    """What a reviewer said of one commit, and of no other."""

    by: str
    """Its program as the settings name it."""
    head: str
    approves: bool
    findings: tuple[Finding, ...] = ()
    summary: str = ""
    """In its own words."""

    def counting(self, severity: str) -> tuple[Finding, ...]:
        """Return the findings of this severity or a graver one, but those that point at nothing."""
        least = SEVERITIES.index(severity)
        return tuple(
            each
            for each in self.findings
            if SEVERITIES.index(each.severity) >= least and each.place != MISSING
        )

    def is_unusable(self, severity: str) -> bool:
        """Tell whether all that it objects to points at what does not exist."""
        least = SEVERITIES.index(severity)
        objects = [each for each in self.findings if SEVERITIES.index(each.severity) >= least]
        return bool(objects) and all(each.place == MISSING for each in objects)


@frozen
class GreenGates:
    """What the verify commands said of a commit for which a second opinion is asked."""

    passed: tuple[str, ...] = ()
    flagged: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
