"""A database of an earlier version is brought up to date, and all it holds can be read."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from lifecycle.machine import events as on
from lifecycle.machine.states import Ended, Reason, Rejected, Stopping
from lifecycle.store.codec import decode_event, decode_state
from lifecycle.store.sqlite import SqliteStore
from lifecycle.store.sqlite_file import migrations

if TYPE_CHECKING:
    from pathlib import Path

PROCESS = '{"pid":1,"start_time":2,"boot_id":"b","spawn_id":"s"}'
OUTCOME = '{"ended":"hung","text":"t"}'
STOPPING = f'{{"kind":"Stopping","v":1,"process":{PROCESS},"outcome":{OUTCOME}}}'
STUCK = '{"kind":"Rejected","v":1,"reason":"no_progress","text":"3 attempts in a row"}'


@pytest.mark.parametrize(("before", "after"), [("crashed", Ended.CRASH), ("hung", Ended.HANG)])
def test_endings_keep_their_meaning_under_their_new_names(before: str, after: Ended) -> None:
    found = decode_state(STOPPING.replace("hung", before))
    assert isinstance(found, Stopping)
    assert found.outcome.ended is after


def test_what_was_given_up_for_lack_of_progress_can_be_taken_up_again() -> None:
    found = decode_state(STUCK)
    assert isinstance(found, Rejected)
    assert (found.reason, found.text) == (Reason.ERROR, "3 attempts in a row")


def test_a_fact_without_what_was_added_later_is_whole() -> None:
    found = decode_event('{"kind":"AgentExited","v":1,"at":1.0,"attempt":2,"exit_code":3}')
    assert found == on.AgentExited(at=1.0, attempt=2, exit_code=3)


async def test_a_database_without_reports_and_spending_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    old = sqlite3.connect(path)
    with old:
        for _, file in migrations()[:4]:
            old.executescript(file.read_text())
        old.execute("PRAGMA user_version = 4")
        old.execute(
            "INSERT INTO lifecycles (agent_id, task_id, coarse, version, birth, created_at, "
            "updated_at, tags, work_kind, attempt, retry_count, spawn_count, task, facts, work) "
            "VALUES ('a', 'T1', 'rejected', 1, 'b', 1, 1, '[]', 'Rejected', 1, 0, 0, 't', '{}', ?)",
            (STUCK,),
        )
        old.execute(
            "INSERT INTO attempts (agent_id, attempt, spawn_id, pid, started_at, outcome, summary, "
            "error, head_before, head_after, changed_files, commits, saved_ref, swept) "
            "VALUES ('a', 1, 's', 1, 1, 'crashed', '', '', '', '', 0, 0, '', 0)"
        )
    old.close()
    async with await SqliteStore.open(path) as store:
        record = await store.get("a")
        assert record is not None
        assert isinstance(record.work, Rejected)
        (row,) = await store.attempts("a")
        assert (row.outcome, row.program, row.report) == ("crashed", "", None)
        assert await store.spendings() == []
