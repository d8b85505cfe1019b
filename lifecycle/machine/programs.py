"""Which program of an agent's chain takes the next attempt, and which rest for now. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine.states import UnavailableProgram
from lifecycle.machine.values import changed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lifecycle.machine.policy import Policy
    from lifecycle.machine.states import Tally


def up_to_date(tally: Tally, at: float, more: Iterable[UnavailableProgram] = ()) -> Tally:
    """Forget the rests that are over; take over what other lifecycles found limited."""
    known = {each.program: each for each in tally.resting}
    for each in more:
        mine = known.get(each.program)
        if mine is None or (mine.until is not None and (each.until or 0.0) > mine.until):
            known[each.program] = each
    left = tuple(each for each in known.values() if each.until is None or each.until > at)
    return tally if left == tally.resting else changed(tally, resting=left)


def rest(tally: Tally, at: float, why: str, until: float | None) -> Tally:
    """Give the program of the latest attempt no other before that instant."""
    others = tuple(each for each in up_to_date(tally, at).resting if each.program != tally.program)
    return changed(
        tally, resting=(*others, UnavailableProgram(program=tally.program, why=why, until=until))
    )


def is_choice(policy: Policy) -> bool:
    """Tell whether another program could take over from one."""
    return len(policy.programs) > 1


def chosen(tally: Tally, policy: Policy) -> str | None:
    """Return the best program that does not rest; None when all do."""
    resting = {each.program for each in tally.resting}
    if not policy.programs:
        return None if "" in resting else ""
    return next((each for each in policy.programs if each not in resting), None)


def soonest(tally: Tally, policy: Policy) -> UnavailableProgram | None:
    """Return the program that is available first; None when a person has to fix all of them."""
    names = policy.programs or ("",)
    waiting = [each for each in tally.resting if each.program in names and each.until is not None]
    return min(waiting, key=lambda each: each.until or 0.0, default=None)


def next_at(tally: Tally, at: float, policy: Policy) -> float | None:
    """Return from when on some program can work; None when a person has to fix one first."""
    if chosen(tally, policy) is not None:
        return at
    first = soonest(tally, policy)
    return None if first is None or first.until is None else max(at, first.until)


def reasons(tally: Tally, policy: Policy) -> str:
    """Say why none of the programs can work."""
    names = policy.programs or ("",)
    told = [each for each in tally.resting if each.program in names]
    if len(told) == 1:
        return told[0].why
    return "; ".join(f"{each.program}: {each.why}" for each in told)


def awake(tally: Tally) -> Tally:
    """Let all programs work again: a person says so."""
    return changed(tally, resting=(), limits=0, limited_since=None, troubles=0)
