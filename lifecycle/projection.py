"""What a decision means for the record people read and for the ledger of attempts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lifecycle.machine import events as on
from lifecycle.machine.states import (
    Accepted,
    AwaitingHuman,
    BackingOff,
    Capturing,
    Completed,
    PrPending,
    Reason,
    Rejected,
    Spawning,
    Stopping,
    Suspended,
    Verifying,
    Working,
)
from lifecycle.machine.values import changed
from lifecycle.record import LOOSE, AttemptRow, Spending
from runtime.agents.outcome import Ending

if TYPE_CHECKING:
    from lifecycle.machine.events import Event
    from lifecycle.machine.opinion import Opinion
    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle


COMMAND = "command"
"""The program of attempts that a command of the user's makes."""


def onto_record(record: AgentLifecycle, event: Event, after: State) -> None:
    """Bring the record in line with the state that follows."""
    record.work = after
    record.updated_at = event.at
    record.derive()
    match after:
        case Completed(summary=summary, changed_files=files, problem=problem):
            record.submission_summary = summary
            record.changed_files = list(files)
            record.error = problem or None
        case Accepted(summary=summary, changed_files=files):
            record.submission_summary = summary
            record.changed_files = list(files)
            record.error = None
        case Rejected(reason=reason, text=text):
            record.error = text or str(reason)
        case AwaitingHuman(text=text, about=about):
            record.error = f"waits for a person ({about}): {text}"
        case PrPending(word=word):
            record.submission_summary = word.summary
            record.error = None
        case _:
            record.error = None
    if isinstance(event, on.SnapshotTaken):
        record.generated_code = event.code or None
    if facts := _facts(event):
        record.facts = {**record.facts, **facts}


def _facts(event: Event) -> dict[str, Any]:
    """Return what an event adds to what is known of branch and work."""
    match event:
        case on.WorkspaceReady():
            return _workspace(event)
        case on.WorkJoined(attempt=attempt, head=head, base=base) if head:
            return {"base_commit": base, "joined": {"attempt": attempt, "head": head}}
        case on.MergeSucceeded(into=into) if into:
            return {"base_branch": into}
        case on.GatesFinished(flagged=flagged) if flagged:
            return {"flagged": list(flagged)}
        case on.ReviewFinished(opinion=opinion) if opinion is not None:
            return {"opinion": _opinion(event, opinion)}
        case _:
            return {}


def _opinion(event: on.ReviewFinished, opinion: Opinion) -> dict[str, Any]:
    return {
        "by": opinion.by,
        "head": opinion.head,
        "attempt": event.attempt,
        "at": event.at,
        "approves": opinion.approves,
        "summary": opinion.summary,
        "findings": [dict(vars(each)) for each in opinion.findings],
    }


def _workspace(event: on.WorkspaceReady) -> dict[str, Any]:
    return {
        "branch": event.branch,
        "base_commit": event.base_commit,
        "base_branch": event.base_branch,
        "workspace": event.path,
        "baseline": {gate.command: gate.ok for gate in event.baseline},
        "baseline_digest": event.digest,
        "notes": list(event.notes),
        "head": event.base_commit,
    }


def onto_ledger(  # noqa: PLR0911  # one line per kind of fact reads best
    row: AttemptRow | None, record: AgentLifecycle, before: State, event: Event, after: State
) -> AttemptRow | None:
    """Return the attempt's row as it shall be, or None when nothing about it changed."""
    its = row if isinstance(event, on.AttemptEvent) and _is_of(row, event) else None
    match event:
        case on.AgentSpawned(process=process):
            return changed(_begun(row, record, event, program=after.tally.program), pid=process.pid)
        case on.AgentExited() if isinstance(before, Spawning):
            # Its start was not told before: all that is known of it is its end.
            return _ended(_begun(row, record, event, program=after.tally.program), event)
        case on.AgentExited() | on.AgentStopped() if row is not None:
            return _ended(row, event)
        case on.RunnerRestarted(report=report) if row is not None and _began(before):
            # What passed while nobody ran was not worked.
            sign = event.last_sign
            ended = sign if sign is not None and row.started_at <= sign <= event.at else event.at
            return changed(row, ended_at=ended, swept=event.swept, report=report)
        case on.RunnerRestarted() if event.lived or _spoke(before):
            # It lived, but its runner died before that could be written down.
            spoke = isinstance(after, Capturing)
            return changed(
                _begun(row, record, event, program=after.tally.program),
                ended_at=event.at,
                swept=event.swept,
                report=event.report,
                outcome="" if spoke else str(Ending.INTERRUPTED),
                error="" if spoke else "the runner ended while the agent was being started",
            )
        case on.SnapshotTaken() if its is not None and isinstance(before, Capturing):
            return _concluded(its, before, event, after)
        case on.GatesFinished() if its is not None and isinstance(before, Verifying):
            if isinstance(after, Verifying) or event.asks:
                return None
            red = not isinstance(after, Completed)
            return changed(
                its,
                outcome="gate_failed" if red else "task_complete",
                error=after.tally.signature if red else "",
            )
        case on.ReviewFinished() if its is not None:
            return _sent_back(its, after)
        case _:
            return None


def _sent_back(row: AttemptRow, after: State) -> AttemptRow | None:
    """Note for what a reviewer sent the work to a fresh attempt, if it did."""
    back = after.inner if isinstance(after, Suspended) else after
    if not isinstance(back, BackingOff) or back.verify is not None:
        return None
    return changed(row, outcome="review_findings", error=back.why)


def _began(before: State) -> bool:
    """Tell whether it is known that the attempt's process began."""
    return isinstance(before, (Working, Stopping))


def _is_of(row: AttemptRow | None, event: on.AttemptEvent) -> bool:
    return row is not None and row.attempt == event.attempt


def _spoke(before: State) -> bool:
    """Tell whether a process was heard of before its start was told."""
    return isinstance(before, Spawning) and before.ending is not None


def _ended(row: AttemptRow, event: on.AgentExited | on.AgentStopped) -> AttemptRow:
    return changed(
        row,
        ended_at=event.at,
        exit_code=event.exit_code,
        signal=event.signal,
        swept=event.swept,
        report=event.report,
    )


def head_now(row: AttemptRow | None, record: AgentLifecycle) -> str:
    """Return the commit that the workspace is at, as far as it is written down."""
    joined = record.facts.get("joined")
    if joined is not None and (row is None or joined["attempt"] > row.attempt):
        return str(joined["head"])
    if row is None:
        return str(record.facts.get("base_commit", ""))
    return row.head_after or row.head_before


def _begun(
    before: AttemptRow | None, record: AgentLifecycle, event: on.AttemptEvent, *, program: str
) -> AttemptRow:
    again = before if _is_of(before, event) else None
    return AttemptRow(
        agent_id=record.agent_id,
        attempt=event.attempt,
        spawn_id=event.speaks_of,
        started_at=event.at,
        head_before=head_now(before, record),
        before=again.used if again is not None else None,
        program=program,
    )


def onto_books(row: AttemptRow, record: AgentLifecycle, event: Event) -> Spending | None:
    """Return what an attempt used, as far as it was told, at each end of a process of it."""
    if not isinstance(event, (on.AgentExited, on.AgentStopped, on.RunnerRestarted)):
        return None
    used, told = row.used, row.report
    return Spending(
        agent_id=record.agent_id,
        task_id=record.task_id,
        plan=str(record.facts.get("plan", {}).get("name", LOOSE)),
        attempt=row.attempt,
        birth=record.birth,
        at=event.at,
        program=row.program or COMMAND,
        model=told.model if told is not None else "",
        **vars(used),
    )


def of_review(record: AgentLifecycle, event: Event, after: State) -> Spending | None:
    """Return what a reviewer's process used; None where the fact is about none."""
    if not isinstance(event, on.ReviewFinished) or not event.program:
        return None
    told = event.report
    return Spending(
        agent_id=record.agent_id,
        task_id=record.task_id,
        plan=str(record.facts.get("plan", {}).get("name", LOOSE)),
        attempt=event.attempt,
        review=after.tally.reviews,
        birth=record.birth,
        at=event.at,
        program=f"review: {event.program}",
        model=told.model if told is not None else "",
        tokens=(told.tokens or 0) if told is not None else 0,
        input_tokens=told.input_tokens if told is not None else 0,
        output_tokens=told.output_tokens if told is not None else 0,
        cached_tokens=told.cached_tokens if told is not None else 0,
        cost_usd=told.cost_usd if told is not None else None,
        seconds=event.seconds,
    )


def _concluded(
    row: AttemptRow, before: Capturing, event: on.SnapshotTaken, after: State
) -> AttemptRow:
    word = before.outcome.word
    given_up = isinstance(after, Rejected) and after.reason is Reason.MAX_RETRIES
    failed = given_up or after.tally.retry_count > before.tally.retry_count
    outcome = word.type if word is not None else str(before.outcome.ended)
    if failed and word is not None and word.type == "task_complete":
        outcome = "gate_failed"
    return changed(
        row,
        outcome=outcome,
        summary=_own_words(before)[:2000],
        error=after.tally.signature if failed else before.outcome.text,
        head_after=event.head,
        changed_files=len(event.changed_files),
        commits=event.commits,
        saved_ref=event.saved_ref,
    )


def _own_words(before: Capturing) -> str:
    word = before.outcome.word
    if word is None:
        return ""
    return word.summary or word.question or word.reason
