"""What a person may ask of a lifecycle at the moment, and of the rest why not.

Asks the machine itself, which decides the same when the order comes. Changes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypedDict

from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.machine.states import About, AwaitingHuman
from lifecycle.machine.step import IllegalTransition
from lifecycle.machine.table import decide
from lifecycle.plan import Task
from lifecycle.state_words import word_for

if TYPE_CHECKING:
    from lifecycle.record import AgentLifecycle
    from lifecycle.settings import Settings


class ActionForm(TypedDict):
    """One order that a person can give."""

    name: str
    """as the API and the command line have it"""
    allowed: bool
    why_not: str
    """empty where it is allowed"""


def actions_of(record: AgentLifecycle, settings: Settings) -> list[ActionForm]:
    """Return each order, and whether it would be carried out at the moment."""
    policy = _policy(record, settings)
    told: list[ActionForm] = []
    for name, event in _orders(record.updated_at).items():
        why_not = _why_not(record, event, policy)
        told.append({"name": name, "allowed": not why_not, "why_not": why_not})
    return told


def why_not(record: AgentLifecycle, order: str, settings: Settings) -> str:
    """Return why an order would be refused at the moment; empty if it would be carried out."""
    return _why_not(record, _orders(record.updated_at)[order], _policy(record, settings))


def _orders(at: float) -> dict[str, on.PersonEvent]:
    by = "somebody"
    return {
        "answer": on.Answered(at=at, by=by, text="-"),
        "guide": on.Guided(at=at, by=by, text="-"),
        "unblock": on.Unblocked(at=at, by=by, why="", note=""),
        "pause": on.PauseRequested(at=at, by=by, why="", now=False, turns=0),
        "resume": on.ResumeRequested(at=at, by=by, why=""),
        "stop": on.StopRequested(at=at, by=by, why="", pause=True),
        "accept": on.AcceptRequested(at=at, by=by, why=""),
        "reject": on.RejectRequested(at=at, by=by, why=""),
    }


def _policy(record: AgentLifecycle, settings: Settings) -> Policy:
    with suppress(LookupError, ValueError):  # facts that are damaged are told apart
        return settings.policy(Task.model_validate(record.facts["task"]))
    return Policy()


def _why_not(record: AgentLifecycle, event: on.PersonEvent, policy: Policy) -> str:
    work = record.work
    if work is None:
        return "no loop drives this record"
    asks = isinstance(work, AwaitingHuman) and work.about is About.QUESTION
    if asks and isinstance(event, on.Unblocked):
        return "its agent asked a question, which needs an answer"
    try:
        step = decide(work, event, policy)
    except IllegalTransition as refusal:
        return refusal.why or f"not possible while it is {word_for(work)}"
    return f"it is {word_for(work)} already" if step.late else ""
