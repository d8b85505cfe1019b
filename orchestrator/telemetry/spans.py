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
    if isinstance(fact, on.GatesFinished):
        return news.before == "Verifying" and news.after != "Verifying" and not fact.asks
    return isinstance(fact, on.RunnerRestarted) and row.outcome == "interrupted"


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


def _attempt(record: AgentLifecycle, row: AttemptRow, at: float) -> Told:
    """Return one process of an attempt, from its start to the verdict on what it left."""
    failed = "" if row.outcome in _WELL else row.outcome
    program, used = _program(record, row), _used(row)
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
            **{f"gen_ai.usage.{kind}_tokens": number for kind, number in used.items()},
            **_told(row),
            "loopwright.attempt": row.attempt,
            "loopwright.attempt.outcome": row.outcome,
            "loopwright.attempt.commits": row.commits,
            **({} if row.exit_code is None else {"process.exit.code": row.exit_code}),
        },
        failed=failed,
    )
    kinds = {kind: number for kind, number in used.items() if kind in {"input", "output"}}
    ended = {"error.type": failed} if failed else {}
    measurements = [
        *(
            Measurement(TOKENS, number, {**program, "gen_ai.token.type": kind})
            for kind, number in kinds.items()
        ),
        Measurement(
            DURATION, max((row.ended_at or at) - row.started_at, 0.0), {**program, **ended}
        ),
    ]
    if row.report is not None and row.report.cost_usd is not None:
        measurements.append(Measurement(COST, row.report.cost_usd, program))
    return Told((span,), tuple(measurements))


def _whose(record: AgentLifecycle) -> dict[str, Value]:
    return {
        "gen_ai.agent.id": record.agent_id,
        "gen_ai.agent.name": record.agent_id,
        "loopwright.task.id": record.task_id,
    }


def _program(record: AgentLifecycle, row: AttemptRow) -> dict[str, Value]:
    """Name program and model: NAME or NAME:MODEL is asked for, the program says what answered."""
    chosen = row.program or str(record.facts.get("agent", {}).get("adapter") or "command")
    name, _, asked = chosen.partition(":")
    answered = row.report.model if row.report is not None else ""
    named: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": PROVIDERS.get(name, name),
    }
    if asked:
        named["gen_ai.request.model"] = asked
    if answered:
        named["gen_ai.response.model"] = answered
    return named


def _used(row: AttemptRow) -> dict[str, int]:
    """Return the tokens of one process by kind; empty where its program tells none."""
    told = row.report
    if told is None or told.tokens is None:
        return {}
    return {
        # With what came from a cache, as the conventions count; programs differ in that.
        "input": max(told.input_tokens, told.tokens - told.output_tokens),
        "output": told.output_tokens,
        "cache_read.input": told.cached_tokens,
    }


def _told(row: AttemptRow) -> dict[str, Value]:
    told = row.report
    if told is None:
        return {}
    more: dict[str, Value] = {}
    if told.session_id:
        more["gen_ai.conversation.id"] = told.session_id
    if told.cost_usd is not None:
        more["loopwright.cost_usd"] = told.cost_usd
    return more
