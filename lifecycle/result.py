"""The loop's answer to its caller, read off a record."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lifecycle.machine.states import (
    About,
    Accepted,
    AwaitingHuman,
    Blocked,
    Completed,
    PrPending,
    Reason,
    Rejected,
    State,
    Suspended,
)
from lifecycle.needs_person import asked, ways

if TYPE_CHECKING:
    from lifecycle.record import AgentLifecycle


class LoopResultType(StrEnum):
    """How a loop can end."""

    TASK_COMPLETE = "task_complete"
    BLOCKED = "blocked"
    PR_CREATED = "pr_created"
    MAX_RETRIES = "max_retries"
    ERROR = "error"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopResult:
    """The result of a loop."""

    result_type: LoopResultType
    task_id: str
    agent_id: str
    summary: str = ""
    blocked_on: list[str] = field(default_factory=list)
    pr_url: str | None = None
    """Of the pull request: as the agent signalled it, else the provider's own."""
    provider_pr_url: str | None = None
    """Under which the provider keeps that pull request."""
    error: str | None = None
    spawn_count: int = 0
    """Processes that were started; an attempt that was interrupted has more than one."""
    retry_count: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


def ended(record: AgentLifecycle) -> LoopResult | None:
    """Return the result of a lifecycle that a loop cannot move on by itself; None otherwise."""
    match record.work:
        case Completed() | Accepted():
            return _result(record, LoopResultType.TASK_COMPLETE)
        case Rejected(reason=Reason.MAX_RETRIES):
            return _result(record, LoopResultType.MAX_RETRIES)
        case Rejected():
            return _result(record, LoopResultType.ERROR)
        case (
            AwaitingHuman(about=About.BLOCKED_TIMEOUT | About.DEPENDENCY)
            | AwaitingHuman(
                about=(
                    About.QUESTION | About.SETUP | About.REVIEW | About.NO_PROGRESS | About.OPINION
                ),
                until=None,
            )
            | AwaitingHuman(about=About.CONFLICT, number=None)
        ):
            return _left_to_people(record)
        case AwaitingHuman(about=About.PR_TIMEOUT):
            return _result(record, LoopResultType.PR_CREATED)
        case _:
            return None


def for_people(record: AgentLifecycle) -> LoopResult:
    """Return the result of a lifecycle that only a person can move on, and that is not waited for.

    Its record can be resumed.
    """
    left = _left_to_people(record)
    return replace(left, blocked_on=[_person(record)])


def _left_to_people(record: AgentLifecycle) -> LoopResult:
    state = record.work
    told = record.error or f"waits for a {_person(record)}"
    if state is not None and (how := ways(record.agent_id, state)):
        told = f"{told.rstrip('. ')}; continue with {how}, and run it again"
    result = _result(record, LoopResultType.BLOCKED, told)
    return result if result.blocked_on else replace(result, blocked_on=[_person(record)])


def _person(record: AgentLifecycle) -> str:
    return f"person: {asked(record.work) if record.work is not None else ''}"


def telling_unblock(result: LoopResult, record: AgentLifecycle | None) -> LoopResult:
    """Say how the library's caller ends a block, unless it is a summary that waits for approval."""
    work = record.work if record is not None else None
    if work is None or (isinstance(work, AwaitingHuman) and work.about is About.REVIEW):
        return result
    how = "or make an attempt at once with run_agent_loop(agent, task, unblock=True)"
    return replace(result, error=f"{result.error}; {how}")


def interrupted(record: AgentLifecycle) -> LoopResult:
    """Return the result of a loop that was shut down; its record can be resumed."""
    return _result(record, LoopResultType.SHUTDOWN)


def broken(record: AgentLifecycle, problem: str) -> LoopResult:
    """Return the result of a loop that a defect of the runner itself ended."""
    return _result(record, LoopResultType.ERROR, problem)


def _result(record: AgentLifecycle, kind: LoopResultType, error: str | None = None) -> LoopResult:
    state = record.work
    tally = state.tally if state is not None else None
    inner = state.inner if isinstance(state, Suspended) else state
    return LoopResult(
        result_type=kind,
        task_id=record.task_id,
        agent_id=record.agent_id,
        summary=_summary(inner) or record.submission_summary or "",
        blocked_on=_blocked_on(inner),
        pr_url=_pr_url(inner),
        provider_pr_url=_provider_pr_url(inner),
        error=error or record.error,
        spawn_count=tally.spawn_count if tally else 0,
        retry_count=tally.retry_count if tally else 0,
    )


def _summary(state: State | None) -> str:
    match state:
        case Completed(summary=summary) | Accepted(summary=summary):
            return summary
        case Blocked(word=word) | PrPending(word=word):
            return word.summary
        case AwaitingHuman(text=text):
            return text
        case _:
            return ""


def _blocked_on(state: State | None) -> list[str]:
    match state:
        case Blocked(word=word):
            return list(word.blocked_on)
        case AwaitingHuman(blocked_on=blocked_on):
            return list(blocked_on)
        case _:
            return []


def _pr_url(state: State | None) -> str | None:
    match state:
        case PrPending(word=word, url=url):
            return _address(word.pr_url) or url or None
        case AwaitingHuman(signalled_url=signalled, url=url):
            return _address(signalled) or url or None
        case _:
            return None


def _address(signalled: str) -> str:
    """Return it if it is an address; a provider also finds a pull request by its number."""
    return signalled if "://" in signalled else ""


def _provider_pr_url(state: State | None) -> str | None:
    match state:
        case PrPending(url=url, number=number) | AwaitingHuman(url=url, number=number) if (
            number is not None
        ):
            return url or None
        case _:
            return None
