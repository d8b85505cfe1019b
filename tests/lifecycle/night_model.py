"""What must follow from each end of an attempt, said once more in the words of the documentation.

Must not use anything of `lifecycle.machine`: it is what that is held against.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.lifecycle.night_script import Job
    from tests.lifecycle.night_world import Ran

PAYS = frozenset(
    {
        "no_breakpoint",
        "hang",
        "timeout",
        "crash",
        "loop",
        "context_overflow",
        "error",
        "gate_failed",
    }
)
LIMITS, TROUBLES, MENDED = frozenset({"rate_limit"}), frozenset({"overloaded", "network"}), {"auth"}
SPREAD = 0.25
MARGIN = 30.0


class Span(NamedTuple):
    """Between which instants something is due."""

    soonest: float
    latest: float


class Rest(NamedTuple):
    """A program that takes no attempt; None: until a person mended it."""

    over: Span | None

    def is_sure(self, at: float) -> bool:
        """Tell whether nobody may try it now."""
        return self.over is None or at < self.over.soonest

    def may_last(self, at: float) -> bool:
        """Tell whether it may still rest."""
        return self.over is None or at <= self.over.latest


AT_ONCE = Span(0.0, 0.0)


def doubling(first: float, cap: float, nth: int) -> Span:
    """Return how long the nth wait of a growing kind is."""
    if nth <= 1:
        return Span(min(first, cap), min(first, cap))
    grown = min(first * 2 ** (nth - 1), cap / (1 + SPREAD))
    return Span(grown * (1 - SPREAD), grown * (1 + SPREAD))


@dataclass
class Model:
    """What is expected of one lifecycle."""

    job: Job
    settings: dict[str, Any]
    state: str = "waiting"
    """waiting, breaker, blocked, question, pr, or how it ended."""
    due: Span = AT_ONCE
    """Of the next start, while waiting."""
    until: float = 0.0
    """When it is given up, while blocked or asking, or while the breaker is open."""
    asked_since: float | None = None
    """Since when a person is waited for because nothing moves."""
    retries: int = 0
    stuck: int = 0
    trips: int = 0
    limits: int = 0
    troubles: int = 0
    failure: str = ""
    said: str = ""
    tree: str = ""
    rests: dict[str, Rest] = field(default_factory=dict)

    # --- an end -------------------------------------------------------------------------------

    def ends(self, ran: Ran, kind: str, at: float) -> Rest | None:
        """Take the end of a process; return the rest that its program is in since, if any."""
        self.rests = {name: rest for name, rest in self.rests.items() if rest.may_last(at)}
        moved, new = self._looked_at(ran)
        if kind == "interrupted":
            self.state, self.due = "waiting", Span(at, at)
            return None
        self.limits = self.limits + 1 if kind in LIMITS else 0
        self.troubles = self.troubles + 1 if kind in TROUBLES else 0
        if kind in PAYS:
            self._charge(kind, at, moved=moved, new=new)
        elif kind in LIMITS or kind in TROUBLES or kind in MENDED:
            return self._rests(ran, kind, at)
        elif kind == "task_complete":
            self.state = "completed"
        elif kind == "budget":
            self.state = "budget"
        else:
            self._talks(kind, at, new=new)
        return None

    def _looked_at(self, ran: Ran) -> tuple[bool, bool]:
        moved = ran.tree != self.tree if self.tree else not ran.fresh
        new = bool(ran.word) and ran.words != self.said
        self.tree, self.said = ran.tree, ran.words or self.said
        if moved:
            self._moved_on()
            self.failure = ""
        return moved, new

    def _charge(self, kind: str, at: float, *, moved: bool, new: bool) -> None:
        alike, self.failure = kind == self.failure, kind
        if moved or (new and not alike):
            self._moved_on()
        else:
            self.stuck += 1
        if self.retries >= self.settings["max_retries"]:
            self.state = "max_retries"
            return
        self.retries += 1
        if self.stuck >= self.settings["stuck_limit"]:
            self._opens(at)
        else:
            self._wait(at, doubling(self.settings["retry_interval"], 600.0, self.stuck))

    def _moved_on(self) -> None:
        self.stuck, self.trips, self.asked_since = 0, 0, None

    def _opens(self, at: float) -> None:
        """Wait for a person, with a try from time to time, but not for ever."""
        self.trips += 1
        self.asked_since = at if self.asked_since is None else self.asked_since
        self.until = self.asked_since + self.settings["blocked_timeout"]
        self._wait(at, doubling(self.settings["breaker_cooldown"], 86_400.0, self.trips), "breaker")
        if self.due.latest >= self.until:
            self.due = Span(min(self.due.soonest, self.until), inf)

    def _rests(self, ran: Ran, kind: str, at: float) -> Rest:
        if kind in MENDED:
            rest = Rest(None)
        elif kind in TROUBLES:
            rest = Rest(_from(at, doubling(30.0, 900.0, self.troubles)))
        else:
            rest = Rest(self._end_of_limit(ran, at))
        self.rests[ran.program] = rest
        if any(name not in self.rests for name in self.job.programs):
            self._wait(at, AT_ONCE)
            return rest
        spans = [each.over for each in self.rests.values() if each.over is not None]
        if not spans:
            self.state = "error"
        else:
            self.state = "waiting"
            self.due = Span(min(each.soonest for each in spans), min(each.latest for each in spans))
            self.due = Span(max(at, self.due.soonest), max(at, self.due.latest))
        return rest

    def _end_of_limit(self, ran: Ran, at: float) -> Span:
        trouble = ran.met
        if trouble is not None and trouble.named and (trouble.until > at or self.limits == 1):
            end = max(at, trouble.until)
            # Of limits in a row, one that ends just ahead may be waited for as if it named no end.
            grown = doubling(300.0, 3600.0, self.limits - 1).latest if self.limits > 1 else 0.0
            return Span(end + MARGIN, max(end + 2 * MARGIN, at + grown))
        return _from(at, doubling(300.0, 3600.0, self.limits))

    def _talks(self, kind: str, at: float, *, new: bool) -> None:
        if new and kind != "pr_created":
            self._moved_on()
        self.state = kind
        timeout = "pr_merge_timeout" if kind == "pr_created" else "blocked_timeout"
        self.until = at + self.settings[timeout]

    def _wait(self, at: float, span: Span, state: str = "waiting") -> None:
        self.state, self.due = state, _from(at, span)

    # --- what others do -----------------------------------------------------------------------

    def woken(self, at: float, waits: tuple[str, ...]) -> None:
        """Take that something has happened that ends such waits."""
        if self.state in waits and at < self.until:
            self.state, self.due = "waiting", Span(at, at)

    def resumed(self, at: float, why: str) -> None:
        """Take that a person wants it to go on."""
        if self.rests:
            self.limits = self.troubles = 0
        self.rests.clear()
        if why != "hurry":
            # It had ended: by a budget, of which nothing is known here, or by what was mended.
            self._moved_on()
            self.failure = ""
            self.state, self.due = "waiting", Span(at, at)
        elif self.state == "waiting":
            self.due = Span(min(at, self.due.soonest), at)

    def starts(self) -> None:
        """Take that an attempt began."""
        if self.state == "breaker":
            self.stuck = self.settings["stuck_limit"] - 1
        self.state = "working"


def _from(at: float, span: Span) -> Span:
    return Span(at + span.soonest, at + span.latest)
