"""Operations on a population of 25, and what the audit adds to a commit."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.measure import BURST, Options, Row, compared, limited, part, script
from bench.world import facts_like, world
from lifecycle.audit import Act
from lifecycle.fleet.manager import MAX_AGENTS, LifecycleManager, Population
from lifecycle.machine.events import AgentSpawned
from lifecycle.machine.states import AgentState, Process, Tally, Working
from lifecycle.plan import Agent
from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry
from lifecycle.store.rows.records import attempt_row, journal_row, record_row
from lifecycle.store.sqlite import file
from lifecycle.store.sqlite import statements as sql
from lifecycle.store.sqlite.audit_trail import FileNote, TrailWriter
from lifecycle.store.sqlite.writer import Writer

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

ACT = Act(
    at=1_800_000_000.0,
    actor="runner",
    action="spawn",
    subject="agent-T001",
    outcome="done",
    reason="attempt 12 of task T001",
    details={"attempt": 12, "pid": 123_456, "spawn_id": "agent-T001.abcd1234.56.0"},
)


class _Silent:
    def info(self, event: str, /, **fields: Any) -> None:
        pass

    warning = info


def _times(call: Callable[[Population[Agent]], object], agent: Agent, rounds: int) -> list[float]:
    """Time one operation on a full population, or on one with a free place."""
    times = []
    for _ in range(rounds):
        state = Population({f"a{number}": agent for number in range(MAX_AGENTS - 1)})
        for number in range(0, MAX_AGENTS - 1, 2):
            state.paused_agents.add(f"a{number}")
            state.auto_resume[f"a{number}"] = 2
        began = time.perf_counter()
        call(state)
        times.append(time.perf_counter() - began)
    return times


async def _operations(options: Options) -> list[Row]:
    agent = Agent(agent_id="a", command=("true",))
    manager = LifecycleManager(logger=_Silent())
    rows = []
    calls: tuple[tuple[str, Callable[[Population[Agent]], object]], ...] = (
        ("add_agent", lambda state: manager.add_agent("a1", agent, {}, state)),
        ("remove_agent", lambda state: manager.remove_agent("a2", state)),
        ("pause_agent", lambda state: manager.pause_agent("a1", 3, state)),
        ("resume_agent", lambda state: manager.resume_agent("a2", state)),
        ("get_active_agents", manager.get_active_agents),
        ("process_auto_resume", manager.process_auto_resume),
    )
    for name, call in calls:
        times = _times(call, agent, 200 if options.quick else 5000)
        p99 = part(times, 0.99)
        rows.append(
            limited(
                what=f"population of {MAX_AGENTS}: {name}, p99",
                ours=f"{p99 * 1e6:.1f} us",
                value=p99,
                at_most=0.001,
                reach="< 1 ms",
                samples=len(times),
            )
        )
    return rows


class _Store:
    """A writer that commits the start of an attempt, with or without its entry in the audit."""

    def __init__(self, path: Path) -> None:
        self.ledger = TrailWriter(FileNote(path))
        self.writer = Writer(
            lambda: file.open_writer(path, durable=False, patience=10),
            lambda problem: file.explain(problem, path),
        )
        self._version = 0

    async def burst(self, *, audited: bool) -> list[float]:
        times = []
        for _ in range(BURST):
            self._version += 1
            decision = _started(self._version)
            began = time.perf_counter()
            await self.writer.write(partial(self._commit, decision, audited=audited))
            times.append(time.perf_counter() - began)
        return times

    def _commit(
        self, decision: sql.Decision, connection: sqlite3.Connection, *, audited: bool
    ) -> None:
        sql.write_decision(connection, decision)
        if audited:
            self.ledger.append(connection, (ACT,))
            # Within the transaction only here: it costs the same after it.
            self.ledger.note_newest(connection)


def _started(version: int) -> sql.Decision:
    process = Process(pid=123_456, start_time=1, boot_id="b" * 36, spawn_id="agent-T001.ab.1.0")
    tally = Tally(attempt=version, spawn_count=version)
    record = AgentLifecycle(
        agent_id="agent-T001",
        task="Task",
        task_id="T001",
        state=AgentState.RUNNING,
        facts=facts_like("T001"),
        work=Working(process=process, since=1.0, tally=tally),
        birth="abcd1234",
    )
    entry = JournalEntry(
        agent_id="agent-T001",
        seq=version,
        at=1.0,
        event=AgentSpawned(at=1.0, attempt=version, process=process),
        rule="spawned",
        before="Spawning",
        after="Working",
    )
    row = AttemptRow(agent_id="agent-T001", attempt=version, spawn_id=process.spawn_id)
    return sql.Decision(
        record=record_row(record, version=version),
        journal=[journal_row(entry)],
        effects=(),
        done=("agent-T001.abcd1234.1.0",),
        spending=None,
        attempt=attempt_row(row),
        taken=(),
        at=1.0,
    )


async def measure(options: Options) -> list[Row]:
    """Measure both."""
    rows = await _operations(options)
    with world() as made:
        store = _Store(made.root / "state.db")
        await store.writer.open()
        row = await compared(
            partial(store.burst, audited=True),
            partial(store.burst, audited=False),
            options.rounds(600),
            what="commit of a start, with its entry in the audit",
            against="the same commit without",
            at_most=1.5,
        )
        rows.append(row)
        await store.writer.close()
        store.ledger.note.close()
    return rows


if __name__ == "__main__":
    script(measure)
