"""A database of an earlier version is brought up to date, and all it holds can be read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from lifecycle.json_form import decode, encode
from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.machine.runner_orders import DeliveriesOrder
from lifecycle.machine.states import Capturing, Reason, Rejected, Spawning, State, Stopping
from lifecycle.machine.table import decide
from lifecycle.store.sqlite.file import migrations
from lifecycle.store.sqlite.store import SqliteStore
from runtime.agents.outcome import Ending
from tests.lifecycle.store.samples import delivery

if TYPE_CHECKING:
    from pathlib import Path

PROCESS = '{"pid":1,"start_time":2,"boot_id":"b","spawn_id":"s"}'
OUTCOME = '{"ended":"hung","text":"t"}'
STOPPING = f'{{"kind":"Stopping","v":1,"process":{PROCESS},"outcome":{OUTCOME}}}'
STUCK = '{"kind":"Rejected","v":1,"reason":"no_progress","text":"3 attempts in a row"}'


@pytest.mark.parametrize(("before", "after"), [("crashed", Ending.CRASH), ("hung", Ending.HANG)])
def test_endings_keep_their_meaning_under_their_new_names(before: str, after: Ending) -> None:
    found = decode(State, STOPPING.replace("hung", before))
    assert isinstance(found, Stopping)
    assert found.outcome.ended is after


def test_what_was_given_up_for_lack_of_progress_can_be_taken_up_again() -> None:
    found = decode(State, STUCK)
    assert isinstance(found, Rejected)
    assert (found.reason, found.text) == (Reason.ERROR, "3 attempts in a row")


def test_a_fact_without_what_was_added_later_is_whole() -> None:
    found = decode(on.Event, '{"kind":"AgentExited","v":1,"at":1.0,"attempt":2,"exit_code":3}')
    assert found == on.AgentExited(at=1.0, attempt=2, exit_code=3)


@pytest.mark.parametrize("kind", ["Spawning", "Capturing"])
def test_a_state_that_does_not_know_its_process_goes_by_the_attempts_number(kind: str) -> None:
    found = decode(State, f'{{"kind":"{kind}","v":1,"tally":{{"attempt":2}},"outcome":{OUTCOME}}}')
    assert isinstance(found, (Spawning, Capturing))
    assert found.spawn_id == ""
    for spawn_id, attempt, late in (("s", 2, False), ("s", 1, True)):
        event: on.Event = on.SnapshotTaken(at=1, attempt=attempt, spawn_id=spawn_id)
        if isinstance(found, Spawning):
            event = on.AgentExited(at=1, attempt=attempt, spawn_id=spawn_id)
        assert decide(found, event, Policy()).late is late


def made_by(path: Path, version: int) -> sqlite3.Connection:
    """Return a new database as a version of the schema had it, with one lifecycle if it may."""
    old = sqlite3.connect(path)
    for _, script in migrations()[:version]:
        old.executescript(script.read_text())
    old.execute(f"PRAGMA user_version = {version}")
    old.execute(
        "INSERT INTO lifecycles (agent_id, task_id, coarse, version, birth, created_at, "
        "updated_at, tags, work_kind, attempt, retry_count, spawn_count, task, facts, work) "
        "VALUES ('a', 'T1', 'rejected', 1, 'b', 1, 1, '[]', 'Rejected', 1, 0, 0, 't', '{}', ?)",
        (STUCK,),
    )
    return old


@pytest.mark.parametrize("version", range(1, migrations()[-1][0]))
async def test_a_database_of_any_earlier_version_is_brought_up_to_date(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "state.db"
    with closing(made_by(path, version)) as old, old:
        old.execute("INSERT INTO documents (collection, key, body) VALUES ('c', 'k', '{}')")
    async with await SqliteStore.open(path) as store:
        assert [each.agent_id for each in (await store.list()).records] == ["a"]
        assert await store.all("c") == {"k": {}}
        assert (await store.spent()).attempts == 0
        assert await store.deliveries.add(delivery())
        assert await store.instances.active() == 0
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == migrations()[-1][:1]


async def test_a_database_without_reports_and_spending_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(made_by(path, 4)) as old, old:
        old.execute(
            "INSERT INTO attempts (agent_id, attempt, spawn_id, pid, started_at, outcome, summary, "
            "error, head_before, head_after, changed_files, commits, saved_ref, swept) "
            "VALUES ('a', 1, 's', 1, 1, 'crashed', '', '', '', '', 0, 0, '', 0)"
        )
    async with await SqliteStore.open(path) as store:
        record = await store.get("a")
        assert record is not None
        assert isinstance(record.work, Rejected)
        (row,) = await store.attempts("a")
        assert (row.outcome, row.program, row.report) == ("crashed", "", None)
        assert await store.spendings() == []


async def test_requests_of_a_database_that_knew_lifecycles_alone_keep_their_numbers(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.db"
    pause = encode(on.PauseRequested(at=1.0, by="ada"))
    with closing(made_by(path, 6)) as old, old:
        old.executemany(
            "INSERT INTO requests (agent_id, at, body) VALUES ('a', 1.0, ?)", [(pause,)] * 3
        )
        old.execute("UPDATE requests SET answered_at = 2.0, problem = 'no' WHERE request_id = 1")
        old.execute("DELETE FROM requests WHERE request_id = 3")
    async with await SqliteStore.open(path) as store:
        assert [each.request_id for each in await store.requests()] == [2]
        assert await store.request_outcome(1) == "no"
        assert await store.ask(None, DeliveriesOrder(at=2.0)) == 4
        assert await store.delete("a")
        assert [each.request_id for each in await store.requests()] == [4]
