"""How a row looks: shape, colour and word, which always go together, and its one button.

The one table for all pages. Orange (`you`) means the person who looks, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from orchestrator.web.pages.site import task_url

if TYPE_CHECKING:
    from orchestrator.web.reading.board import BoardRowForm
    from orchestrator.web.reading.story import AttemptStoryForm


class Look(NamedTuple):
    """A state as it is drawn."""

    icon: str
    colour: str
    """you, good, bad, run, wait or idle"""
    word: str


OF_STATE = {
    "queued": Look("queued", "idle", "Queued"),
    "starting": Look("spawn", "run", "Starting"),
    "working": Look("working", "run", "Working"),
    "stopping": Look("working", "run", "Stopping"),
    "verifying": Look("working", "run", "Verifying"),
    "waiting": Look("clock", "wait", "Waiting"),
    "paused": Look("pause", "idle", "Paused"),
    "stopped": Look("stopped", "idle", "Stopped"),
    "needs-you": Look("question", "you", "Needs you"),
    "done": Look("review", "good", "Done"),
    "accepted": Look("accepted", "good", "Accepted"),
    "rejected": Look("no", "idle", "Rejected"),
    "given-up": Look("givenup", "bad", "Given up"),
}
"""By the word for a state."""
OF_NEED = {
    "answer": Look("question", "you", "Question"),
    "approve": Look("file", "you", "Summary to read"),
    "conflict": Look("conflict", "bad", "Not merged"),
    "unblock": Look("blocked", "you", "Stuck"),
    "review": Look("review", "good", "Ready to review"),
    "given_up": OF_STATE["given-up"],
    "repair": Look("givenup", "bad", "Record unreadable"),
}
"""By what a person is needed for."""
FLAGGED = Look("flagged", "you", "Test changed")
OF_WAIT = {
    "Blocked": Look("blocked", "wait", "Blocked"),
    "PrPending": Look("merge", "wait", "Waiting for merge"),
}
OF_END = {
    "": Look("working", "run", "under way"),
    "task_complete": Look("review", "good", "complete"),
    "pr_created": Look("pr", "good", "pull request"),
    "blocked": Look("blocked", "wait", "blocked"),
    "question": Look("question", "you", "question"),
    "rate_limit": Look("limit", "wait", "usage limit"),
    "quota": Look("limit", "wait", "usage limit"),
    "overloaded": Look("clock", "wait", "overloaded"),
    "network": Look("clock", "wait", "no network"),
    "interrupted": Look("stop", "idle", "interrupted"),
    "context_overflow": Look("givenup", "bad", "context full"),
}
"""By how an attempt ended; any other is a failure of that name."""
RED = Look("no", "bad", "gates red")
RESTING = Look("limit", "wait", "Usage limit")
_BUTTONS = {
    "answer": "Answer",
    "approve": "Read",
    "review": "Review",
    "conflict": "Resolve",
    "unblock": "Look",
    "given_up": "Look",
}
GROUPS = {
    "me": ("Needs you", "you", "what holds up others comes first"),
    "working": ("Working", "run", ""),
    "waiting": ("Waiting outside", "wait", "no process, no cost; goes on by itself"),
    "queued": ("Queued", "idle", "starts when a slot is free and what it builds on is done"),
    "done": ("Done", "good", "newest first"),
}
"""Name, colour and what there is to say of each group."""


def look_of(row: BoardRowForm) -> Look:
    """Return how a lifecycle looks."""
    if row["needs"]:
        return look_of_need(row["needs"], flagged=bool(row["flagged"]))
    if row["resting"]:
        return RESTING
    if row["state"] == "waiting":
        return OF_WAIT.get(row["work_state"], OF_STATE["waiting"])
    return OF_STATE[row["state"]]


def look_of_need(need: str, *, flagged: bool) -> Look:
    """Return how what a person is needed for looks; `flagged` work changed what judges it."""
    return FLAGGED if need == "review" and flagged else OF_NEED[need]


def look_of_end(attempt: AttemptStoryForm) -> Look:
    """Return how the end of an attempt looks."""
    if attempt["verified"] is False:
        return RED
    outcome = attempt["outcome"]
    if not outcome and attempt["ended_at"] is not None:
        return Look("dash", "idle", "ended")
    return OF_END.get(outcome) or Look("no", "bad", outcome.replace("_", " "))


def button_of(row: BoardRowForm) -> tuple[str, str]:
    """Return the name and the address of its one button; empty where there is none."""
    need = row["needs"]
    if need in {"review", "conflict"}:
        return _BUTTONS[need], task_url(row["agent_id"]).replace("/t/", "/review/", 1)
    if need in _BUTTONS:
        return _BUTTONS[need], task_url(row["agent_id"])
    if row["group"] == "working":
        return "Watch", task_url(row["agent_id"])
    return "", ""
