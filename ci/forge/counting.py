"""Which checks of a commit count: those that its base requires, and what the settings say. Pure.

Must not judge: a check that does not count keeps its state, so that people are told of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci.events import Check, CheckState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ci.forge.merge_rules import Rules
    from ci.forge.protocol import BranchRules

EXPECTED = "expected"
_ALL = "*"


def counting(
    checks: Sequence[Check], branch: BranchRules, rules: Rules, *, awaits: bool
) -> tuple[Check, ...]:
    """Mark the checks that do not count; `awaits`: add what is required and has not begun.

    `required_checks` stands over the rules of the branch, `ignore_checks` over both; where neither
    names any, all count that the forge itself does not call optional.
    """
    wanted = rules.required_checks or branch.required_checks
    found = [check.model_copy(update={"counts": _counts(check, wanted, rules)}) for check in checks]
    return (*found, *_missing(checks, wanted, rules)) if awaits else tuple(found)


def _counts(check: Check, wanted: Sequence[str], rules: Rules) -> bool:
    if matches(check.name, rules.ignore_checks):
        return False
    if check.counts:
        return not wanted or matches(check.name, wanted)
    # A bare `*` names nothing: it means all that are not optional.
    return matches(check.name, [name for name in wanted if name != _ALL])


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name is one of these, or of the form of one; `*` stands for any text."""
    return any(re.fullmatch(_pattern(each), name, re.DOTALL) for each in patterns)


def _pattern(text: str) -> str:
    return ".*".join(map(re.escape, text.split(_ALL)))


def _missing(checks: Sequence[Check], wanted: Sequence[str], rules: Rules) -> list[Check]:
    return [
        Check(name=name, state=CheckState.PENDING, how=EXPECTED, summary="required, not begun")
        for name in dict.fromkeys(wanted)
        if not (
            _ALL in name
            or matches(name, rules.ignore_checks)
            or any(check.name == name for check in checks)
        )
    ]
