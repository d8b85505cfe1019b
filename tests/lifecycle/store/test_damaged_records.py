"""One damaged record is named, left as it is, and keeps no other from being read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import StoreFromNewerVersionError
from lifecycle.machine import states as st
from lifecycle.record import Filter, Transaction
from lifecycle.store import plain_queries
from lifecycle.store.damaged_records import RecordDamagedError, damage_of
from lifecycle.store.sqlite.listing import damaged_in
from lifecycle.store.sqlite.store import SqliteStore
from tests.lifecycle.store.damaging import (
    HARM,
    NO_JSON,
    NO_SUCH_KIND,
    damage,
    execute,
    garble,
    stored,
)
from tests.lifecycle.store.samples import ACCEPTED, WORKING, begun, entry, lifecycle

if TYPE_CHECKING:
    from pathlib import Path


async def three(store: SqliteStore) -> None:
    for name in ("a", "b", "c"):
        await begun(store, name, work=WORKING, task_id=f"T-{name}", facts={"task": {}})


@pytest.mark.parametrize("changes", HARM.values(), ids=HARM)
async def test_a_damaged_record_is_named_and_keeps_no_other_from_being_read(
    store: SqliteStore, path: Path, changes: dict[str, str]
) -> None:
    await three(store)
    damage(path, "b", changes)

    assert [record.agent_id for record in await store.unfinished()] == ["a", "c"]
    assert [each.agent_id for each in await store.damaged()] == ["b"]
    page = await store.list()
    assert [record.agent_id for record in page.records] == ["c", "a"]
    (named,) = page.damaged
    assert (named.agent_id, named.task_id, named.state) == ("b", "T-b", "running")
    assert named.problem
    assert [record.agent_id async for record in store.every()] == ["c", "a"]
    with pytest.raises(RecordDamagedError, match=r"record of b is damaged .*loopwright doctor"):
        await store.get("b")
    assert (await store.get("a") or lifecycle()).agent_id == "a"


async def test_a_damaged_record_counts_on_its_page_and_pages_go_on_behind_it(
    store: SqliteStore, path: Path
) -> None:
    await three(store)
    damage(path, "b", NO_JSON)

    seen, cursor = [], None
    for _ in range(3):
        page = await store.list(cursor=cursor, limit=1)
        seen.append([each.agent_id for each in page.named])
        cursor = page.next_cursor

    assert seen == [["c"], ["b"], ["a"]]
    assert cursor is None
    assert (await store.list(Filter(task_id="T-a"))).damaged == ()


async def test_a_damaged_record_that_has_ended_holds_up_no_loop(
    store: SqliteStore, path: Path
) -> None:
    await begun(store, "over", work=ACCEPTED)
    damage(path, "over", NO_JSON)

    assert await store.damaged() == ()
    assert [each.agent_id for each in (await store.list()).damaged] == ["over"]


async def test_a_record_of_a_newer_version_is_not_damage_and_still_refused(
    store: SqliteStore, path: Path
) -> None:
    await three(store)
    newer = '{"kind":"Dreaming","v":1}'
    damage(path, "b", {"work": newer, "work_kind": "Dreaming"})

    with pytest.raises(StoreFromNewerVersionError, match="Dreaming"):
        await store.unfinished()
    with pytest.raises(StoreFromNewerVersionError):
        await store.get("b")


@pytest.mark.parametrize("column", ["work", "facts", "task", "birth"])
async def test_text_that_is_not_utf8_damages_its_own_record_only(
    store: SqliteStore, path: Path, column: str
) -> None:
    await three(store)
    garble(path, "b", column)

    assert [record.agent_id for record in await store.unfinished()] == ["a", "c"]
    (named,) = await store.damaged()
    assert named.agent_id == "b"
    assert column in named.problem
    with pytest.raises(RecordDamagedError, match="record of b"):
        await store.get("b")
    # The file itself is whole: nothing asks for it to be checked or moved.
    assert not path.with_name("state.db.suspect").exists()
    assert (await store.get("a") or lifecycle()).task == "Make it work"


async def test_nothing_that_is_read_or_written_beside_it_changes_a_damaged_record(
    path: Path,
) -> None:
    async with await SqliteStore.open(path) as store:
        await three(store)
    garble(path, "b", "work")
    before = stored(path, "b")

    async with await SqliteStore.open(path) as store:
        (first, _) = await store.unfinished()
        first.work = st.Queued()
        first.derive()
        await store.update(first)
        await store.list()
        await store.damaged()

    assert stored(path, "b") == before
    assert [each.agent_id for each in damaged_in(path)] == ["b"]


async def test_a_damaged_journal_is_the_damage_of_its_lifecycle(
    store: SqliteStore, path: Path
) -> None:
    await three(store)
    record = await store.get("b")
    assert record is not None
    await store.commit(Transaction(record=record, journal=(entry(1, "b"),)))
    execute(path, "UPDATE journal SET body = CAST(x'7bff7d' AS TEXT) WHERE agent_id = ?", "b")

    with pytest.raises(Exception, match="not valid UTF-8") as found:
        await store.journal("b")
    blamed = damage_of(record, found.value)
    assert isinstance(blamed, RecordDamagedError)
    assert blamed.damaged.agent_id == "b"
    assert await store.journal("a") == ()


@pytest.mark.parametrize("changes", [NO_JSON, NO_SUCH_KIND, {"facts": "{"}, {"tags": "7"}])
async def test_the_quick_look_shows_a_damaged_record_as_such(
    store: SqliteStore, path: Path, changes: dict[str, str]
) -> None:
    await three(store)
    damage(path, "b", changes)

    rows = {row["agent_id"]: row["damaged"] for row in plain_queries.read_rows(path)}

    assert rows.pop("b")
    assert rows == {"a": "", "c": ""}
    facts = {agent_id: known for agent_id, _, _, known in plain_queries.read_facts(path)}
    assert facts["b"] == ({} if "facts" in changes else {"task": {}})
    assert facts["a"] == {"task": {}}


async def test_the_quick_look_shows_text_that_is_not_utf8(store: SqliteStore, path: Path) -> None:
    await three(store)
    garble(path, "b", "facts")

    rows = {row["agent_id"]: row["damaged"] for row in plain_queries.read_rows(path)}

    assert rows == {"a": "", "b": "invalid UTF-8 in facts", "c": ""}
