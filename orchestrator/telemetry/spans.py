"""What a decision means as spans and measurements: their names, times and attributes. Pure.

Owns every name that is sent. Those that begin with `gen_ai.` are of OpenTelemetry's semantic
conventions for generative AI, the others our own. No text of an agent or a task is among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from lifecycle.attempt.trace_ids import attempt_span, span_id, trace_id
from lifecycle.machine import events as on
from lifecycle.machine.states import TERMINAL, WAITS, Completed, Reason, Rejected, Suspended
from lifecycle.state_words import spelled, word_on

if TYPE_CHECKING:
    from lifecycle.machine.events import AgentReport
    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle, AttemptRow
    from lifecycle.reporting import Committed

Value: TypeAlias = str | int | float | bool
Attributes: TypeAlias = Mapping[str, Value]


class Instrument(NamedTuple):
    """What is measured, and how it adds up."""

    kind: Literal["counter", "histogram"]
    unit: str
    description: str


TOKENS, DURATION = "gen_ai.client.token.usage", "gen_ai.client.operation.duration"
COST, ENDS = "loopwright.cost", "loopwright.lifecycle.ends"
GATES, WAITED = "loopwright.gate.duration", "loopwright.wait.duration"
INSTRUMENTS: dict[str, Instrument] = {
    TOKENS: Instrument("histogram", "{token}", "Tokens that one agent process used, by kind"),
    DURATION: Instrument("histogram", "s", "How long one agent process worked"),
    COST: Instrument("counter", "USD", "What agent programs say that their work cost"),
    ENDS: Instrument("counter", "{lifecycle}", "Lifecycles that ended or are done, by state"),
    GATES: Instrument("histogram", "s", "How long one verify command took"),
    WAITED: Instrument("histogram", "s", "How long a lifecycle waited, by what for"),
}
PROVIDERS = {"claude": "anthropic", "codex": "openai", "gemini": "gcp.gemini"}
"""By agent program, whose models it uses, in the words of the conventions; else its own name."""
FOR = {
    "Queued": "slot_or_dependency",
    "Blocked": "blocker",
    "PrPending": "pull_request",
    "BackingOff": "next_attempt",
    "AwaitingHuman": "person",
    "Suspended": "resume",
    "Completed": "decision",
}
"""What each state of waiting is a wait for."""
assert set(FOR) == {kind.__name__ for kind in (*WAITS, Suspended, Completed)}  # noqa: S101
_WELL = frozenset(("task_complete", "blocked", "pr_created", "question"))
_RESTS = (Completed.__name__, *(kind.__name__ for kind in TERMINAL))


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Something that took time, and belongs to the trace of a lifecycle."""

    trace: int
    id: int
    parent: int | None
    name: str
    began: float
    ended: float
    attributes: Attributes
    failed: str = ""
    """How it failed, in a word; empty if it did not."""


class Measurement(NamedTuple):
    """One value for one instrument."""

    instrument: str
    value: float
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Told:
    """What there is to send of one decision."""

    spans: tuple[Span, ...] = ()
    measurements: tuple[Measurement, ...] = field(default=())

    def __add__(self, other: Told) -> Told:
        """Return both."""
        return Told(self.spans + other.spans, self.measurements + other.measurements)


def of_decision(news: Committed, since: float, row: AttemptRow | None) -> Told:
    """Return what a decision ended: a wait, an attempt with its gates, a lifecycle.

    `since` is when the state before began, `row` the latest attempt.
    """
    told, record = Told(), news.record
    if news.before != news.after:
        if news.before in FOR:
            told += _wait(record, news.before, since, news.at)
        if news.after in _RESTS and not (news.before == "Completed" and news.after == "Accepted"):
            told += _lifecycle(record, news.after, news.at)
    if isinstance(news.fact, on.GatesFinished) and news.before == "Verifying" and row is not None:
        told += _gates(record, news.fact, row)
    if isinstance(news.fact, on.ReviewFinished) and news.fact.program and row is not None:
        told += _review(record, news.fact, row)
    if row is not None and _concludes(news, row):
        told += _attempt(record, row, news.at)
    return told


def _concludes(news: Committed, row: AttemptRow) -> bool:
    """Tell whether it is known now how a process of an attempt ended and was judged."""
    fact = news.fact
    if not isinstance(fact, on.AttemptEvent) or fact.attempt != row.attempt:
        return False
    if isinstance(fact, on.SnapshotTaken):
        return news.before == "Capturing" and news.after not in {"Capturing", "Verifying"}
    if isinstance(fact, (on.GatesFinished, on.ReviewFinished)):
        moved = news.before == "Verifying" != news.after
        return moved and not _comes_back(news.record.work)
    return isinstance(fact, on.RunnerRestarted) and row.outcome == "interrupted"


def _comes_back(work: State | None) -> bool:
    """Tell whether gates or reviewers are asked once more before there is a verdict."""
    inner = work.inner if isinstance(work, Suspended) else work
    return getattr(inner, "verify", None) is not None


def _lifecycle(record: AgentLifecycle, after: str, at: float) -> Told:
    state = spelled(word_on(record))
    work, failed = record.work, ""
    if isinstance(work, Rejected) and after == "Rejected" and work.reason is not Reason.PERSON:
        failed = str(work.reason)
    span = Span(
        trace=trace_id(record),
        id=span_id(record),
        parent=None,
        name=f"lifecycle {record.task_id}".rstrip(),
        began=record.created_at,
        ended=at,
        attributes={
            **_whose(record),
            "loopwright.state": state,
            "loopwright.attempts": work.tally.attempts if work is not None else 0,
        },
        failed=failed,
    )
    return Told((span,), (Measurement(ENDS, 1, {"loopwright.state": state}),))


def _wait(record: AgentLifecycle, before: str, since: float, at: float) -> Told:
    what = {"loopwright.wait.for": FOR[before]}
    span = Span(
        trace=trace_id(record),
        id=span_id(record, "wait", before, repr(since)),
        parent=span_id(record),
        name=f"wait for {FOR[before].replace('_', ' ')}",
        began=since,
        ended=at,
        attributes={**_whose(record), **what},
    )
    return Told((span,), (Measurement(WAITED, max(at - since, 0.0), what),))


def _gates(record: AgentLifecycle, fact: on.GatesFinished, row: AttemptRow) -> Told:
    """Return the verify commands, which ran one after the other and ended with the fact."""
    spans, measurements = list[Span](), list[Measurement]()
    began = fact.at - sum(gate.seconds for gate in fact.gates)
    for place, gate in enumerate(fact.gates):
        spans.append(
            Span(
                trace=trace_id(record),
                id=span_id(record, "gate", row.spawn_id, repr(fact.at), str(place)),
                parent=attempt_span(record, row.spawn_id),
                name="verify",
                began=began,
                ended=began + gate.seconds,
                attributes={
                    **_whose(record),
                    "loopwright.attempt": row.attempt,
                    "loopwright.gate.command": gate.command,
                    "loopwright.gate.ok": gate.ok,
                    **({} if gate.code is None else {"process.exit.code": gate.code}),
                },
                failed="" if gate.ok else gate.end,
            )
        )
        began += gate.seconds
        measurements.append(Measurement(GATES, gate.seconds, {"loopwright.gate.ok": gate.ok}))
    return Told(tuple(spans), tuple(measurements))


def _review(record: AgentLifecycle, fact: on.ReviewFinished, row: AttemptRow) -> Told:
    """Return the process of a reviewer, which ended with the fact."""
    said, program = fact.opinion, _program(fact.program, fact.report)
    failed = "" if said is not None else str(fact.outcome.ended) if fact.outcome else "error"
    span = Span(
        trace=trace_id(record),
        id=span_id(record, "review", row.spawn_id, repr(fact.at)),
        parent=attempt_span(record, row.spawn_id),
        name=f"invoke_agent reviewer of {record.agent_id}",
        began=fact.at - fact.seconds,
        ended=fact.at,
        attributes={
            **_whose(record),
            "gen_ai.agent.name": f"reviewer of {record.agent_id}",
            **program,
            **_told(fact.report),
            "loopwright.attempt": row.attempt,
            **({} if said is None else {"loopwright.review.approves": said.approves}),
        },
        failed=failed,
    )
    return Told((span,), _measured(program, fact.report, fact.seconds, failed))


def _attempt(record: AgentLifecycle, row: AttemptRow, at: float) -> Told:
    """Return one process of an attempt, from its start to the verdict on what it left."""
    failed = "" if row.outcome in _WELL else row.outcome
    chosen = row.program or str(record.facts.get("agent", {}).get("adapter") or "command")
    program = _program(chosen, row.report)
    span = Span(
        trace=trace_id(record),
        id=attempt_span(record, row.spawn_id),
        parent=span_id(record),
        name=f"invoke_agent {record.agent_id}",
        began=row.started_at,
        ended=max(at, row.ended_at or at),
        attributes={
            **_whose(record),
            **program,
            **_told(row.report),
            "loopwright.attempt": row.attempt,
            "loopwright.attempt.outcome": row.outcome,
            "loopwright.attempt.commits": row.commits,
            **({} if row.exit_code is None else {"process.exit.code": row.exit_code}),
        },
        failed=failed,
    )
    worked = max((row.ended_at or at) - row.started_at, 0.0)
    return Told((span,), _measured(program, row.report, worked, failed))


def _measured(
    program: Attributes, report: AgentReport | None, seconds: float, failed: str
) -> tuple[Measurement, ...]:
    """Return what one process used."""
    used = _used(report)
    kinds = [(kind, used[kind]) for kind in ("input", "output") if kind in used]
    ended = {"error.type": failed} if failed else {}
    tokens = (
        Measurement(TOKENS, number, {**program, "gen_ai.token.type": kind})
        for kind, number in kinds
    )
    took = Measurement(DURATION, seconds, {**program, **ended})
    if report is None or report.cost_usd is None:
        return (*tokens, took)
    return (*tokens, took, Measurement(COST, report.cost_usd, program))


def _whose(record: AgentLifecycle) -> dict[str, Value]:
    return {
        "gen_ai.agent.id": record.agent_id,
        "gen_ai.agent.name": record.agent_id,
        "loopwright.task.id": record.task_id,
    }


def _program(chosen: str, report: AgentReport | None) -> dict[str, Value]:
    """Name program and model: NAME or NAME:MODEL is asked for, the program says what answered."""
    name, _, asked = chosen.partition(":")
    answered = report.model if report is not None else ""
    named: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": PROVIDERS.get(name, name),
    }
    if asked:
        named["gen_ai.request.model"] = asked
    if answered:
        named["gen_ai.response.model"] = answered
    return named


def _used(report: AgentReport | None) -> dict[str, int]:
    """Return the tokens of one process by kind; empty where its program tells none."""
    if report is None or report.tokens is None:
        return {}
    return {
        # With what came from a cache, as the conventions count; programs differ in that.
        "input": max(report.input_tokens, report.tokens - report.output_tokens),
        "output": report.output_tokens,
        "cache_read.input": report.cached_tokens,
    }


def _told(report: AgentReport | None) -> dict[str, Value]:
    """Return what a program told of one process of it."""
    if report is None:
        return {}
    more: dict[str, Value] = {
        f"gen_ai.usage.{kind}_tokens": number for kind, number in _used(report).items()
    }
    if report.session_id:
        more["gen_ai.conversation.id"] = report.session_id
    if report.cost_usd is not None:
        more["loopwright.cost_usd"] = report.cost_usd
    return more
