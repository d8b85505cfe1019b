"""Accepts the work of several lifecycles in the order of their dependencies.

What waits or is refused keeps back what builds on it, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from lifecycle.machine.states import Completed
from lifecycle.state_words import spelled, word_on
from orchestrator.control.commands import OperatorCommand
from orchestrator.control.requests import UnansweredError
from orchestrator.web import operator as people
from orchestrator.web.edge.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lifecycle.record import AgentLifecycle
    from orchestrator.runner.server_interface import RunnerPort


class AcceptedForm(TypedDict):
    """What became of one of them."""

    agent_id: str
    merged: bool
    state: str
    text: str
    what_to_do: str


async def accept_several(
    runner: RunnerPort,
    agents: Sequence[str],
    *,
    by: str,
    heads: Mapping[str, str],
    wait_s: float = 120.0,
) -> list[AcceptedForm]:
    """Accept each, what others build on first; `heads` says which commit was looked at."""
    records = [await people.found(runner, each) for each in dict.fromkeys(agents)]
    told: list[AcceptedForm] = []
    waiting: set[str] = set()
    for record in in_order(records):
        task: dict[str, list[str]] = record.facts.get("task") or {}
        needs = waiting.intersection(task.get("dependencies") or ())
        if needs:
            said = f"waits for {', '.join(sorted(needs))}, which was not merged"
            outcome = _told(record, merged=False, text=said)
        else:
            outcome = await _one(runner, record, by, heads.get(record.agent_id, ""), wait_s)
        if not outcome["merged"]:
            waiting.add(record.task_id)
        told.append(outcome)
    return told


def in_order(records: Sequence[AgentLifecycle]) -> list[AgentLifecycle]:
    """Return what others depend on before these."""
    left = {each.task_id: each for each in sorted(records, key=lambda each: each.cursor)}
    done: list[AgentLifecycle] = []
    while left:
        free = [
            task_id
            for task_id, each in left.items()
            if not left.keys() & set((each.facts.get("task") or {}).get("dependencies") or ())
        ]
        done += [left.pop(task_id) for task_id in free or list(left)[:1]]
    return done


async def _one(
    runner: RunnerPort, record: AgentLifecycle, by: str, head: str, wait_s: float
) -> AcceptedForm:
    if not isinstance(record.work, Completed):
        word = word_on(record)
        return _told(record, merged=word == "accepted", text=f"it is {word}")
    command = OperatorCommand(
        verb="accept", agent_id=record.agent_id, by=by, wait_s=wait_s, expect_head=head
    )
    try:
        outcome = await people.steer(runner, command)
    except UnansweredError as late:
        return _told(record, merged=False, text=str(late))
    except Problem as problem:
        present = await people.found(runner, record.agent_id)
        return _told(present, merged=False, text=problem.text, what_to_do=problem.what_to_do)
    present = await people.found(runner, record.agent_id)
    return _told(present, merged=word_on(present) == "accepted", text=outcome.text)


def _told(record: AgentLifecycle, *, merged: bool, text: str, what_to_do: str = "") -> AcceptedForm:
    return {
        "agent_id": record.agent_id,
        "merged": merged,
        "state": spelled(word_on(record)),
        "text": text,
        "what_to_do": what_to_do,
    }
