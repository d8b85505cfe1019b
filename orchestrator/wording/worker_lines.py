"""The lines that the terminal of a worker gets: what it took, handed on and finished.

Text of people and agents is made safe here. Decides nothing, and knows no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.terminal.text import one_line, span

if TYPE_CHECKING:
    from collections.abc import Sequence

TITLE = 80
"""Columns of a task's title in one line."""
MOST = 2000
"""Columns of a text that says what to do."""


def began(
    name: str, place: str, *, slots: int, labels: Sequence[str], lacks: Sequence[str] = ()
) -> list[str]:
    """Say who waits for work of what, and what is missing here."""
    named = f", labelled {', '.join(labels)}" if labels else ""
    waits = f"worker {name} waits for work of {place}: {_slots(slots)}{named}"
    return [one_line(waits, MOST), *(one_line(f"missing here: {each}", MOST) for each in lacks)]


def took(agent_id: str, title: str, attempt: int, *, used: int, slots: int) -> str:
    """Say what is worked on from now on, and how much room is left."""
    name = f" ({one_line(title, TITLE)})" if title else ""
    return one_line(f"{agent_id}: took attempt {attempt}{name}; {used} of {_slots(slots)} in use")


def handed_on(agent_id: str, why: str, *, branch: str, commit: str) -> str:
    """Say what goes on elsewhere, and where its work is."""
    work = f"; its work is pushed: {branch} at {commit[:12]}" if commit else ""
    return one_line(f"{agent_id}: handed on, {why}{work}", MOST)


def lost(lease: float, agents: Sequence[str]) -> str:
    """Say that nobody heard this worker for too long, and what it did about it."""
    ended = f"ended its agents ({', '.join(agents)})" if agents else "had no agent to end"
    told = f"no answer for {span(lease)}, so others may take its work: it {ended} and saved"
    return one_line(f"{told}; it takes work again once it is answered", MOST)


def draining(agents: Sequence[str]) -> str:
    """Say that no more work is taken, and what is still handed on."""
    if not agents:
        return "draining: takes no new work"
    return one_line(f"draining: takes no new work, hands on {', '.join(agents)}", MOST)


def drained(handed: int) -> str:
    """Say that nothing is left here."""
    return f"drained: nothing is left here, {handed} handed on" if handed else "drained"


def not_uploaded(agent_id: str, attempt: int, path: str, why: str) -> str:
    """Say which file people will not find at the coordinator, and where it is."""
    told = f"{agent_id}: a file of attempt {attempt} was not handed in ({why}); it is {path}"
    return one_line(told, MOST)


def _slots(count: int) -> str:
    return "1 slot" if count == 1 else f"{count} slots"
