"""Puts each fact into one line, for people who watch loops run. Decides nothing.

Text of agents, tools and people is made safe for a terminal here. What an agent says is cut to a
line; what a person may have to do, is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine import events as on
from lifecycle.machine.states import (
    AwaitingHuman,
    BackingOff,
    Completed,
    Rejected,
    State,
    Suspended,
    Working,
    is_held,
)
from lifecycle.state_words import word_for
from orchestrator.terminal.text import instant, one_line, span
from orchestrator.wording import facts
from orchestrator.wording.states import entered

if TYPE_CHECKING:
    from lifecycle.reporting import Committed

WORDS = 160
"""Columns of an agent's words in one line."""
MOST = 2000
"""Columns of any other text: an error with what to do about it."""
KEPT = (on.MailboxInvalid, on.RunnerRestarted, on.SnapshotFailed)
"""Facts of an attempt that are shown although they change no state."""
FAILED = (on.WorkspaceFailed, on.SpawnFailed)
"""Facts that are shown with the wait for the next try, as the agent cannot fix them."""


def lines(news: Committed) -> tuple[str, ...]:
    """Return the line of a fact, and before it what people must not miss."""
    fact = news.fact
    if isinstance(fact, on.TurnPassed):
        return () if is_held(news.record.work) else ("resumed by auto-resume",)
    red = facts.failures(fact.baseline) if isinstance(fact, on.WorkspaceReady) else ()
    return tuple(filter(None, (one_line(facts.red_before(red), MOST), line(news))))


def line(news: Committed) -> str:
    """Return a fact and the state it led to; nothing for facts that only machines care for."""
    moved = news.before != news.after
    if not moved and isinstance(news.fact, on.AttemptEvent) and not isinstance(news.fact, KEPT):
        return ""  # it came too late to matter
    # The record may be one state further than this piece of news.
    state = news.record.work
    now = state if type(state).__name__ == news.after else None
    person = isinstance(news.fact, on.PersonEvent)
    told = _person(news.fact, now) if isinstance(news.fact, on.PersonEvent) else _event(news.fact)
    if isinstance(news.fact, on.ReviewFinished) and isinstance(now, AwaitingHuman):
        told = ""  # the state says it all
    then = _entered(now, news) if now is not None and moved else ""
    if isinstance(news.fact, on.WorkspaceReady) and isinstance(now, BackingOff):
        return "; ".join(filter(None, (told, _rests(now, news))))
    woken = person and isinstance(now, BackingOff | Suspended | Rejected)
    if isinstance(now, BackingOff) and isinstance(news.fact, FAILED):
        return f"{told}; tried again in {span(now.until - news.at)}"
    if isinstance(now, Rejected) and isinstance(news.fact, FAILED):
        return f"{told}; {word_for(now)}"
    both = isinstance(news.fact, on.GatesFinished | on.PersonEvent | on.SnapshotTaken)
    if both and told and then and not woken:
        return f"{told}; {then}"
    return told or then


def _event(event: on.Event) -> str:
    agent = isinstance(event, on.AgentExited) or getattr(event, "word", None) is not None
    return one_line(facts.line(event), WORDS if agent else MOST)


def _person(event: on.PersonEvent, state: State | None) -> str:
    if event.by in ("run", "shutdown"):
        return ""
    what = facts.line(event)
    if isinstance(state, Suspended) and isinstance(event, on.PauseRequested | on.StopRequested):
        what = word_for(state)
    elif isinstance(event, on.PauseRequested) and isinstance(state, Working) and state.frozen:
        what = "frozen"
    elif isinstance(event, on.RejectRequested) and isinstance(state, Rejected):
        what = word_for(state)
    elif isinstance(event, on.AcceptRequested) and not isinstance(state, Completed):
        return ""  # it is merged already
    by, words = one_line(event.by, 40) or "a person", facts.words_of(event)
    return one_line(f"{what} by {by}" + (f": {words}" if words else ""), MOST)


def _entered(state: State, news: Committed) -> str:
    text = entered(news.after, vars(state), news.before, news.at, span)
    return one_line(text, WORDS if isinstance(state, Completed) else MOST)


def _rests(state: BackingOff, news: Committed) -> str:
    """Return what a first attempt waits for: others reached a limit of its program before."""
    if state.until <= news.at or not state.tally.resting:
        return ""
    names = ", ".join(each.program or "its program" for each in state.tally.resting)
    until = instant(state.until, news.at)
    return (
        f"waiting: {one_line(names, WORDS)} is unavailable until {until} "
        f"({one_line(state.why, MOST)}); sooner with: loopwright resume {news.agent_id}"
    )
