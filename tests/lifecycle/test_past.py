"""What is remembered of a lifecycle's past stays small, and tells what the next agent needs."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from lifecycle.context.collect import snapshot_of
from lifecycle.context.snapshot import ContextBuilder
from lifecycle.drive import WorkingCopy
from lifecycle.json_form import decode, encode
from lifecycle.machine import events as on
from lifecycle.machine.states import Gate, Process, Queued
from lifecycle.past import FULL_ATTEMPTS, alike, shortened, size, within
from lifecycle.plan import Agent, Task
from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry
from lifecycle.settings import Settings
from lifecycle.working_copy import LocalCopy
from templates.renderer import Renderer
from tests.fuzzing import examples

if TYPE_CHECKING:
    from pathlib import Path

MOST = 48 * 1024
AGENT = "agent-T001"
ATTEMPTS = 200
WORDS = {
    "plain": "I looked at the rounding again and am sure that it works now. ",
    "not of ASCII": "四捨五入をもう一度調べた。",
    "of control characters": 'a\x00\x1b\n\\"',
}


def case_of() -> LocalCopy:
    task, agent = Task(id="T001", title="Calculator"), Agent(agent_id=AGENT, command=("true",))
    record = AgentLifecycle(agent_id=AGENT, task="Calculator", task_id="T001", work=Queued())
    return LocalCopy(record=record, task=task, agent=agent)


def attempt(number: int, words: str, *, outcome: str = "gate_failed") -> AttemptRow:
    """What an attempt that talked a lot left in the ledger."""
    return AttemptRow(
        agent_id=AGENT, attempt=number, started_at=1.0, ended_at=61.0, outcome=outcome,
        summary=f"try {number}: " + (words * 2000)[:1900], error=f"error {number}: " + words * 30,
        commits=1, head_before=f"{number - 1:040}", head_after=f"{number:040}",
    )  # fmt: skip


def live(local: LocalCopy, number: int, seq: count[int], words: str) -> None:
    """Let an attempt pass: its start, its words, its gates, a review and what a person said."""
    long = words * 400
    process = Process(pid=1, start_time=1, boot_id="b", spawn_id=f"s{number}")
    facts: tuple[on.Event, ...] = (
        on.AgentSpawned(at=1.0, attempt=number, process=process),
        on.SnapshotTaken(
            at=2.0, attempt=number, head=f"{number:040}", tree="t",
            changed_files=tuple(f"src/module_{n}.py" for n in range(200)), last_words=long,
        ),
        on.GatesFinished(
            at=3.0, attempt=number,
            gates=tuple(Gate(command=f"check {n}", ok=False, excerpt=long) for n in range(4)),
        ),
        on.Guided(at=4.0, by="Ada", text=f"mind {number}: {long}"),
    )  # fmt: skip
    for fact in facts:
        local.seq = next(seq)
        local.remember(
            JournalEntry(
                agent_id=AGENT, seq=local.seq, at=fact.at, event=fact, rule="r",
                before="Working", after="BackingOff",
            )
        )  # fmt: skip
    local.note_attempt(attempt(number, words))


@pytest.mark.parametrize("kind", WORDS)
def test_two_hundred_attempts_of_long_texts_take_48_kib(kind: str) -> None:
    local, seq, words = case_of(), count(1), WORDS[kind]
    for number in range(1, ATTEMPTS + 1):
        live(local, number, seq, words)
        copy = WorkingCopy(**{name: getattr(local, name) for name in WorkingCopy.__slots__})
        text = encode(copy)
        assert len(text) <= MOST
        if number % 20 == 0:
            assert encode(decode(WorkingCopy, text)) == text
    full = len(local.ledger)
    assert full == FULL_ATTEMPTS or kind == "of control characters"
    assert [row.attempt for row in local.ledger] == list(range(201 - full, 201))
    assert local.folded == {"gate_failed": ATTEMPTS - full}


def test_the_summary_of_a_long_past_tells_the_essentials(tmp_path: Path) -> None:
    local, seq = case_of(), count(1)
    for number in range(1, ATTEMPTS + 1):
        live(local, number, seq, WORDS["plain"])
    builder = ContextBuilder(Renderer(tmp_path))
    page = builder.render(
        snapshot_of(local, builder=builder, settings=Settings(), at=9.0, completed={}, mail=None)
    )
    assert "try 200: I looked at the rounding again" in page
    assert "attempt 199, 1 min: gate failed; 1 commit; said `try 199: I looked at" in page
    assert "mind 200" in page
    assert "`check 0`: **FAILED**" in page
    assert "before these: 189 times gate failed" in page
    assert len(page.encode()) <= 16 * 1024


def test_a_past_that_is_small_is_kept_as_it_was() -> None:
    local, rows = case_of(), [attempt(number, "brief ") for number in range(1, 6)]
    for row in rows:
        local.note_attempt(row)
    assert local.ledger == rows


def test_attempts_that_ended_alike_are_counted_also_where_they_are_folded(tmp_path: Path) -> None:
    local = case_of()
    for number in range(1, ATTEMPTS + 1):
        outcome = "error" if number <= 50 else "crash"
        local.note_attempt(
            AttemptRow(agent_id=AGENT, attempt=number, outcome=outcome, error="boom")
        )
    assert len(local.ledger) == FULL_ATTEMPTS
    assert local.folded == {"error": 50, "crash": 130}
    builder = ContextBuilder(Renderer(tmp_path))
    page = builder.render(
        snapshot_of(local, builder=builder, settings=Settings(), at=9.0, completed={}, mail=None)
    )
    assert "The last 150 attempts ended in the same way" in page


@settings(max_examples=examples(12), deadline=None, database=None)
@given(some.lists(some.text(max_size=4000), max_size=30), some.integers(400, 20_000))
def test_what_is_kept_has_the_size_and_is_the_newest(texts: list[str], most: int) -> None:
    facts = [on.Guided(at=float(n), by="Ada", text=text) for n, text in enumerate(texts)]
    kept = within(facts, most)
    assert size(kept) <= most
    assert [each.at for each in kept] == [each.at for each in facts][len(facts) - len(kept) :]


@settings(max_examples=examples(20), deadline=None, database=None)
@example("\U00010000" * 16, 60)  # of whose start nothing is left
@given(some.text(max_size=3000), some.integers(60, 2000))
def test_a_fact_is_known_again_after_it_was_cut(text: str, most: int) -> None:
    fact = on.CiReported(
        type="checks", at=1.0, green=False, sha="s" * 40,
        details=(on.Detail(title="a check", text=text),),
    )  # fmt: skip
    cut = shortened(fact, most)
    assert alike(cut, fact)
    assert alike(fact, cut)
    assert not alike(cut, on.CiReported(type="checks", at=1.0, green=True, sha="s" * 40))
