"""Costs of a night: what is known, what is not, and what led to nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.machine import events as on
from lifecycle.machine.states import Gate
from lifecycle.paths import Paths
from lifecycle.record import AttemptRow, JournalEntry, Spending, Transaction
from lifecycle.store.sqlite.store import SqliteStore
from orchestrator.control import costs
from orchestrator.control.history import history_form
from orchestrator.control.spent import costs_form
from tests.lifecycle.store.samples import ACCEPTED, REJECTED, lifecycle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HOUR = 3600.0
EVENING = datetime(2027, 3, 10, 18).timestamp()  # noqa: DTZ001  # nights are local


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with await SqliteStore.open(Paths.of(tmp_path).database) as made:
        yield made


async def attempt(
    store: SqliteStore, record: Any, number: int, outcome: str, *, red: bool = False, **used: Any
) -> None:
    """Write one attempt that ended, with its gates and what it used."""
    gates = (Gate(command="pytest", ok=not red),)
    entry = JournalEntry(
        agent_id=record.agent_id,
        seq=number,
        at=used["at"],
        event=on.GatesFinished(at=used["at"], attempt=number, gates=gates),
        rule="rule",
        before="Verifying",
        after="Queued",
    )
    row = AttemptRow(
        agent_id=record.agent_id, attempt=number, started_at=used["at"] - 60, outcome=outcome
    )
    spending = Spending(
        agent_id=record.agent_id,
        task_id=record.task_id,
        attempt=number,
        birth=record.birth,
        **{"program": "claude", "plan": "november", **used},
    )
    await store.commit(Transaction(record=record, journal=(entry,), attempt=row, spending=spending))


async def test_a_night_crosses_midnight_and_says_what_led_to_nothing(
    store: SqliteStore, tmp_path: Path
) -> None:
    one = lifecycle("agent-T1", task_id="T1", created_at=EVENING, work=ACCEPTED)
    two = lifecycle("agent-T2", task_id="T2", created_at=EVENING + HOUR, work=REJECTED)
    before: dict[str, Any] = {"at": EVENING - HOUR, "cost_usd": 9.0, "tokens": 9}
    await attempt(store, one, 1, "task_complete", **before)
    await attempt(store, one, 2, "task_complete", red=True, at=EVENING + 2 * HOUR, cost_usd=2.0)
    await attempt(store, one, 3, "task_complete", at=EVENING + 7 * HOUR, cost_usd=1.0, tokens=500)
    codex: dict[str, Any] = {"program": "codex", "tokens": 70}
    await attempt(store, two, 1, "crash", at=EVENING + 8 * HOUR, **codex)
    present = EVENING + 13 * HOUR
    since = costs.instant_of("night", present)
    assert since == EVENING == costs.instant_of("night", EVENING + 23.9 * HOUR)
    told = costs_form(Paths.of(tmp_path).database, since, present, "program", 100)
    lines = {line["name"]: line for line in told["lines"]}
    assert (lines["claude"]["cost_usd"], lines["claude"]["badly_usd"]) == (3.0, 2.0)
    assert (lines["codex"]["cost_usd"], lines["codex"]["badly_usd"]) == (None, None)
    assert (lines["codex"]["tokens"], lines["codex"]["attempts_badly"]) == (70, 1)
    total = told["total"]
    assert (total["cost_usd"], total["attempts"], total["attempts_with_cost"]) == (3.0, 3, 2)
    assert (total["badly_usd"], total["attempts_badly"], total["badly_with_cost"]) == (2.0, 2, 1)
    ends = [(each["task_id"], each["attempt"], each["ended"]) for each in told["attempts"]]
    assert ends == [("T2", 1, "badly"), ("T1", 3, "well"), ("T1", 2, "badly")]
    hours = costs_form(Paths.of(tmp_path).database, since, present, "hour", 0)
    assert [line["name"][-5:] for line in hours["lines"]] == ["20:00", "01:00", "02:00"]
    assert hours["attempts"] == []
    tasks = costs_form(Paths.of(tmp_path).database, since, present, "task", 1)
    assert {line["name"] for line in tasks["lines"]} == {"T1", "T2"}
    assert [each["task_id"] for each in tasks["attempts"]] == ["T2"]


async def test_how_an_attempt_ended_is_unknown_once_its_record_is_gone(
    store: SqliteStore, tmp_path: Path
) -> None:
    record = lifecycle("agent-T1", task_id="T1", work=REJECTED)
    await attempt(store, record, 1, "crash", at=EVENING, cost_usd=1.0)
    await store.create_next(lifecycle("agent-T1", task_id="T1"), record)
    database = Paths.of(tmp_path).database
    [seen] = costs_form(database, 0.0, EVENING, "task", 5)["attempts"]
    assert seen["ended"] == "badly"  # set aside, it is known all the same
    for page in [page async for page in store.pages()]:
        for each in page.records:
            await store.delete(each.agent_id)
    [seen] = costs_form(database, 0.0, EVENING, "task", 5)["attempts"]
    assert (seen["ended"], seen["outcome"], seen["cost_usd"]) == ("unknown", "", 1.0)


def test_without_records_nothing_was_spent(tmp_path: Path) -> None:
    told = costs_form(tmp_path / "state.db", 0.0, 1.0, "plan", 5)
    assert (told["lines"], told["total"]["cost_usd"]) == ([], None)
    assert history_form(tmp_path / "state.db", 1.0)["nights"] == []


async def test_history_is_told_by_night_with_the_counts_of_the_whole_night(
    store: SqliteStore, tmp_path: Path
) -> None:
    works = [ACCEPTED, REJECTED, ACCEPTED, ACCEPTED]
    for number, work in enumerate(works):
        at = EVENING + (5 + 24 * (number > 1)) * HOUR
        record = replace(
            lifecycle(f"agent-T{number}", task_id=f"T{number}", created_at=at, work=work),
            facts={"task": {"title": f"Title {number}"}},
        )
        await attempt(store, record, 1, "task_complete", at=at, cost_usd=0.5 if number else None)
    database = Paths.of(tmp_path).database
    first = history_form(database, EVENING, limit=3)
    names = [[each["title"] for each in night["items"]] for night in first["nights"]]
    assert names == [["Title 3", "Title 2"], ["Title 1"]]
    assert [night["begins"] for night in first["nights"]] == [EVENING + 24 * HOUR, EVENING]
    assert first["nights"][1]["by_state"] == {"accepted": 1, "rejected": 1}
    assert first["nights"][1]["lifecycles"] == 2
    assert (first["nights"][1]["cost_usd"], first["nights"][1]["attempts_with_cost"]) == (0.5, 1)
    rest = history_form(database, EVENING, limit=3, before=first["next"])
    assert [each["title"] for each in rest["nights"][0]["items"]] == ["Title 0"]
    assert rest["next"] is None
    only = history_form(database, EVENING, words=("rejected",))
    assert [[each["title"] for each in night["items"]] for night in only["nights"]] == [["Title 1"]]
    until = history_form(database, EVENING, until=EVENING + 24 * HOUR)
    assert len(until["nights"]) == 1


def test_the_evening_belongs_to_the_night_that_begins() -> None:
    begins = datetime(2027, 3, 28, 18, tzinfo=UTC).timestamp()
    assert costs.night_of(begins, UTC) == (begins, begins + 24 * HOUR)
    assert costs.night_of(begins - 1, UTC)[0] == begins - 24 * HOUR
