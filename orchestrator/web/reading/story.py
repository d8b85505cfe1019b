"""What became of one lifecycle, attempt by attempt: gates, who paid, its pull request, its journal.

Values only, made of the ledger and the journal. Must not judge anything anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from lifecycle.machine import events as on
from lifecycle.machine.budget import HAIR
from lifecycle.machine.rules.endings import TREATMENTS, FollowUp
from lifecycle.machine.states import AwaitingHuman, PrPending, Suspended
from lifecycle.record import worker_of
from orchestrator.terminal.text import one_line
from orchestrator.wording import facts
from runtime.agents.outcome import Ending

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lifecycle.machine.states import Gate
    from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry
    from lifecycle.store.sqlite.store import SqliteStore
    from orchestrator.runner.server_interface import RunnerPort

RECENT = 500
"""Journal entries that are read, the newest."""
WIDTH = 300
"""Characters of one line about an attempt or an event."""
ALSO_SHOWN = (on.Admitted, on.CiReported, on.PullRequestMoved, on.PullRequestOpened)
"""Facts that are told here although people who watch a table are not told of them."""


class GateForm(TypedDict):
    """One verify command and how it went."""

    command: str
    ok: bool
    says: str
    """how it ended, if it failed"""
    seconds: float
    excerpt: str
    """the end of what it printed"""


class AttemptStoryForm(TypedDict):
    """One attempt."""

    attempt: int
    started_at: float
    ended_at: float | None
    outcome: str
    """a breakpoint's type or a kind of failure; empty while it is under way"""
    words: str
    """what the agent said, or what went wrong, on one line"""
    gates: list[GateForm]
    """empty where none ran"""
    verified: bool | None
    """whether all gates passed; null where none ran"""
    paid: str
    """`retry` if it cost one, `nobody` if not; empty while it is not known"""
    program: str
    worker: str
    """the worker that had it; empty where one machine does all the work"""
    model: str
    tokens: int | None
    """null where the program told none"""
    cost_usd: float | None
    seconds: float
    commits: int
    files: int


class PullForm(TypedDict):
    """The pull request of the work."""

    number: int | None
    url: str
    head: str


class CheckForm(TypedDict):
    """A verdict of CI, the newest of its kind."""

    at: float
    type: str
    green: bool
    sha: str
    text: str
    url: str
    earlier: bool
    """about a commit that is not the newest of the branch"""


class EventForm(TypedDict):
    """An entry of the journal in words."""

    seq: int
    at: float
    text: str
    rule: str
    kind: str
    """the fact's name"""
    good: bool | None
    """whether it is what was hoped for; null where neither"""


class StoryForm(TypedDict):
    """What became of a lifecycle."""

    attempts: list[AttemptStoryForm]
    """the newest first"""
    baseline: dict[str, bool]
    """the verify commands before any work"""
    commands: list[str]
    """the verify commands of its attempts"""
    pull: PullForm | None
    checks: list[CheckForm]
    """the newest first"""
    events: list[EventForm]
    """the newest first"""
    more_events: bool
    """there are older ones: `GET .../events`"""


async def story(runner: RunnerPort, record: AgentLifecycle) -> StoryForm:
    """Return it, with what the attempt under way used so far."""
    told = await story_of(runner.store, record)
    newest = next(iter(told["attempts"]), None)
    if newest is not None and newest["ended_at"] is None:
        spent = runner.engine.shared.accounts.spent(agent_id=record.agent_id)
        before = told["attempts"][1:]
        tokens = spent.tokens - sum(each["tokens"] or 0 for each in before)
        cost = spent.cost_usd - sum(each["cost_usd"] or 0.0 for each in before)
        if newest["tokens"] is None and tokens > 0:
            newest["tokens"] = tokens
        if newest["cost_usd"] is None and cost > HAIR:
            newest["cost_usd"] = round(cost, 6)
    return told


async def story_of(store: SqliteStore, record: AgentLifecycle) -> StoryForm:
    """Return it, read from these records."""
    journal = await store.journal(record.agent_id, limit=RECENT, newest=True)
    rows = await store.attempts(record.agent_id)
    verdicts = _verdicts(journal)
    attempts = [
        _attempt(row, verdicts.get(row.attempt), worker_of(record, row.attempt))
        for row in reversed(rows)
    ]
    return {
        "attempts": attempts,
        "baseline": dict(record.facts.get("baseline") or {}),
        "commands": _commands(attempts, record),
        "pull": _pull(record, journal),
        "checks": list(_checks(reversed(journal))),
        "events": [each for each in map(_event, reversed(journal)) if each["text"]],
        "more_events": len(journal) == RECENT,
    }


def _verdicts(journal: Iterable[JournalEntry]) -> dict[int, on.GatesFinished]:
    """Return the last verdict of the gates on each attempt."""
    return {
        each.event.attempt: each.event
        for each in journal
        if isinstance(each.event, on.GatesFinished) and not each.late
    }


def _attempt(row: AttemptRow, verdict: on.GatesFinished | None, worker: str) -> AttemptStoryForm:
    gates = verdict.gates if verdict is not None else ()
    green = all(each.ok for each in gates) if gates else None
    used = row.used
    told = row.report is not None or row.before is not None
    program, _, model = row.program.partition(":")
    words = "; ".join(facts.failures(gates)) or row.summary or row.error
    return {
        "attempt": row.attempt,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "outcome": row.outcome,
        "words": one_line(words, WIDTH),
        "gates": [_gate(each) for each in gates],
        "verified": green,
        "paid": _paid(row.outcome, green=green),
        "program": program,
        "worker": worker,
        "model": (row.report.model if row.report is not None else "") or model,
        "tokens": used.tokens if told and used.tokens else None,
        "cost_usd": used.cost_usd,
        "seconds": used.seconds,
        "commits": row.commits,
        "files": row.changed_files,
    }


def _gate(gate: Gate) -> GateForm:
    return {
        "command": gate.command,
        "ok": gate.ok,
        "says": "" if gate.ok else gate.end,
        "seconds": round(gate.seconds, 3),
        "excerpt": gate.excerpt,
    }


def _paid(outcome: str, *, green: bool | None) -> str:
    """Say whether it cost a retry: by the one table of endings, or by the gates."""
    if not outcome:
        return ""
    if outcome in {str(each) for each in Ending}:
        return "retry" if TREATMENTS[Ending(outcome)].then is FollowUp.RETRY else "nobody"
    return "retry" if green is False else "nobody"


def _commands(attempts: Sequence[AttemptStoryForm], record: AgentLifecycle) -> list[str]:
    ran = next((each["gates"] for each in attempts if each["gates"]), [])
    own = record.facts.get("task", {}).get("verify", ())
    return [each["command"] for each in ran] or [str(each) for each in own]


def _pull(record: AgentLifecycle, journal: Sequence[JournalEntry]) -> PullForm | None:
    work = record.work.inner if isinstance(record.work, Suspended) else record.work
    if isinstance(work, (PrPending, AwaitingHuman)) and work.url:
        return {"number": work.number, "url": work.url, "head": work.head}
    for entry in reversed(journal):
        if isinstance(entry.event, (on.PullRequestOpened, on.PullRequestMoved)):
            event = entry.event
            head = event.sha if isinstance(event, on.PullRequestMoved) else ""
            return {"number": event.number, "url": event.url, "head": head}
    return None


def _checks(newest: Iterable[JournalEntry]) -> Iterable[CheckForm]:
    seen = set[str]()
    for entry in newest:
        event = entry.event
        if isinstance(event, (on.CiReported, on.PullRequestMoved)) and event.type not in seen:
            seen.add(event.type)
            yield {
                "at": entry.at,
                "type": event.type,
                "green": event.green,
                "sha": event.sha,
                "text": one_line(event.text, WIDTH),
                "url": event.url,
                "earlier": event.earlier,
            }


def _event(entry: JournalEntry) -> EventForm:
    event = entry.event
    shown = isinstance(event, (on.PersonEvent, *ALSO_SHOWN)) or bool(facts.line(event))
    good: bool | None = None
    if isinstance(event, (on.CiReported, on.PullRequestMoved)):
        good = event.green
    elif isinstance(event, on.GatesFinished) and not event.problem:
        good = all(each.ok for each in event.gates)
    elif isinstance(event, on.ReviewFinished) and event.opinion is not None:
        good = event.opinion.approves
    return {
        "seq": entry.seq,
        "at": entry.at,
        "text": one_line(facts.clause(event), WIDTH) if shown else "",
        "rule": entry.rule,
        "kind": type(event).__name__,
        "good": good,
    }
