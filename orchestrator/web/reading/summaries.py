"""What attempts were told and what the next one will be told: texts, facts, changes, edits."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from lifecycle.machine.states import About, AwaitingHuman, Suspended
from orchestrator.control.summaries import Summaries
from orchestrator.web.operator import found

if TYPE_CHECKING:
    from lifecycle.record import AgentLifecycle
    from orchestrator.runner.server_interface import RunnerPort
    from orchestrator.web.models import SummariesForm
    from orchestrator.wording.json_forms import SummaryForm


class SummaryDiffForm(TypedDict):
    """What changed between the summaries of two attempts."""

    attempt: int
    against: int | None
    """the earlier attempt; null where there is none"""
    diff: str
    """as `diff -u` writes it; empty if nothing changed"""
    added: int
    removed: int


async def summaries_of(runner: RunnerPort, agent_id: str) -> Summaries:
    """Return the summaries of a lifecycle."""
    return of_record(runner, await found(runner, agent_id))


def of_record(runner: RunnerPort, record: AgentLifecycle) -> Summaries:
    """Return the summaries of a lifecycle whose record is at hand."""
    masker = runner.engine.shared.masker
    return Summaries(runner.repo, runner.store, record, runner.settings(), masker)


async def overview(runner: RunnerPort, agent_id: str) -> SummariesForm:
    """Return which attempts have a summary, and whether the next one waits for approval."""
    record = await found(runner, agent_id)
    known = of_record(runner, record)
    return {
        "items": known.written(),
        "next_attempt": known.next_attempt,
        "waits": known.waits,
        "held": is_held(record),
        "edits": await known.edits(),
    }


async def one(runner: RunnerPort, agent_id: str, attempt: int) -> SummaryForm:
    """Return the summary of an attempt."""
    known = await summaries_of(runner, agent_id)
    return (await known.show(attempt, at=runner.now())).form(agent_id)


async def compared(
    runner: RunnerPort, agent_id: str, attempt: int, against: int | None
) -> SummaryDiffForm:
    """Return what changed between two summaries."""
    known = await summaries_of(runner, agent_id)
    shown = await known.show(attempt, at=runner.now())
    number, diff = known.compare(shown, against)
    lines = diff.splitlines()[2:]
    return {
        "attempt": attempt,
        "against": number,
        "diff": diff,
        "added": sum(line.startswith("+") for line in lines),
        "removed": sum(line.startswith("-") for line in lines),
    }


def is_held(record: AgentLifecycle) -> bool:
    """Tell whether the next attempt begins only when somebody approves its summary."""
    return isinstance(record.work, Suspended) or waits_for_review(record)


def waits_for_review(record: AgentLifecycle) -> bool:
    """Tell whether the setting `review_summaries` holds the next attempt."""
    work = record.work.inner if isinstance(record.work, Suspended) else record.work
    return isinstance(work, AwaitingHuman) and work.about is About.REVIEW


def approval_of(record: AgentLifecycle) -> str:
    """Return the order that lets the next attempt of a lifecycle begin: who held it paused it."""
    paused = isinstance(record.work, Suspended) and not waits_for_review(record)
    return "resume" if paused else "approve"
