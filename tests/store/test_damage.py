"""One damaged record is named, left as it is, and keeps no other from being read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import StoreFromNewerVersionError
from lifecycle.machine import states as st
from lifecycle.record import Commit, Filter
from lifecycle.store import peek
from lifecycle.store.damage import RecordDamagedError, damage_of
from lifecycle.store.sqlite import SqliteStore
from lifecycle.store.sqlite_listing import damaged_in
from lifecycle.store.walk import every
from tests.store.damaging import HARM, NO_JSON, NO_SUCH_KIND, damage, execute, garble, stored
from tests.store.samples import ACCEPTED, WORKING, begun, entry, lifecycle

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.store.port import LifecycleStore


async def three(store: LifecycleStore) -> None:
    for name in ("a", "b", "c"):
        await begun(store, name, work=WORKING, task_id=f"T-{name}", facts={"task": {}})


@pytest.mark.parametrize("changes", HARM.values(), ids=HARM)
async def test_one_damaged_record_keeps_no_other_from_being_listed(
    store: LifecycleStore, path: Path, changes: dict[str, str]
) -> None:
    await three(store)
    damage(store, path, "b", changes)

    assert [record.agent_id for record in await store.unfinished()] == ["a", "c"]
    assert [each.agent_id for each in await store.damaged()] == ["b"]
    page = await store.list()
    assert [record.agent_id for record in page.records] == ["c", "a"]
    (named,) = page.damaged
    assert (named.agent_id, named.task_id, named.state) == ("b", "T-b", "running")
    assert named.problem
    assert [record.agent_id async for record in every(store)] == ["c", "a"]


@pytest.mark.parametrize("changes", HARM.values(), ids=HARM)
async def test_who_asks_for_a_damaged_record_is_told_which_and_what_to_do(
    store: LifecycleStore, path: Path, changes: dict[str, str]
) -> None:
    await three(store)
    damage(store, path, "b", changes)

    with pytest.raises(RecordDamagedError, match=r"record of b is damaged .*loopwright doctor"):
        await store.get("b")
    assert (await store.get("a") or lifecycle()).agent_id == "a"


async def test_a_damaged_record_counts_on_its_page_and_pages_go_on_behind_it(
    store: LifecycleStore, path: Path
) -> None:
    await three(store)
    damage(store, path, "b", NO_JSON)

    seen, cursor = [], None
    for _ in range(3):
        page = await store.list(cursor=cursor, limit=1)
        seen.append([each.agent_id for each in page.named])
        cursor = page.next_cursor

    assert seen == [["c"], ["b"], ["a"]]
    assert cursor is None
    assert (await store.list(Filter(task_id="T-a"))).damaged == ()


async def test_a_damaged_record_that_has_ended_holds_up_no_loop(
    store: LifecycleStore, path: Path
) -> None:
    await begun(store, "over", work=ACCEPTED)
    damage(store, path, "over", NO_JSON)

    assert await store.damaged() == ()
    assert [each.agent_id for each in (await store.list()).damaged] == ["over"]


async def test_a_record_of_a_newer_version_is_no_damage_and_still_refused(
    store: LifecycleStore, path: Path
) -> None:
    await three(store)
    newer = '{"kind":"Dreaming","v":1}'
    damage(store, path, "b", {"work": newer, "work_kind": "Dreaming"})

    with pytest.raises(StoreFromNewerVersionError, match="Dreaming"):
        await store.unfinished()
    with pytest.raises(StoreFromNewerVersionError):
        await store.get("b")


@pytest.mark.parametrize("column", ["work", "facts", "task", "birth"])
async def test_text_that_is_no_utf8_damages_its_own_record_only(
    sqlite_store: SqliteStore, path: Path, column: str
) -> None:
    await three(sqlite_store)
    garble(path, "b", column)

    assert [record.agent_id for record in await sqlite_store.unfinished()] == ["a", "c"]
    (named,) = await sqlite_store.damaged()
    assert named.agent_id == "b"
    assert column in named.problem
    with pytest.raises(RecordDamagedError, match="record of b"):
        await sqlite_store.get("b")
    # The file itself is whole: nothing asks for it to be checked or moved.
    assert not path.with_name("state.db.suspect").exists()
    assert (await sqlite_store.get("a") or lifecycle()).task == "Make it work"


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
    sqlite_store: SqliteStore, path: Path
) -> None:
    await three(sqlite_store)
    record = await sqlite_store.get("b")
    assert record is not None
    await sqlite_store.commit(Commit(record=record, journal=(entry(1, "b"),)))
    execute(path, "UPDATE journal SET body = CAST(x'7bff7d' AS TEXT) WHERE agent_id = ?", "b")

    with pytest.raises(Exception, match="no UTF-8") as found:
        await sqlite_store.journal("b")
    blamed = damage_of(record, found.value)
    assert isinstance(blamed, RecordDamagedError)
    assert blamed.damaged.agent_id == "b"
    assert await sqlite_store.journal("a") == ()


@pytest.mark.parametrize("changes", [NO_JSON, NO_SUCH_KIND, {"facts": "{"}, {"tags": "7"}])
async def test_the_quick_look_shows_a_damaged_record_as_such(
    sqlite_store: SqliteStore, path: Path, changes: dict[str, str]
) -> None:
    await three(sqlite_store)
    damage(sqlite_store, path, "b", changes)

    rows = {row["agent_id"]: row["damaged"] for row in peek.read_rows(path)}

    assert rows.pop("b")
    assert rows == {"a": "", "c": ""}
    facts = {agent_id: known for agent_id, _, _, known in peek.read_facts(path)}
    assert facts["b"] == ({} if "facts" in changes else {"task": {}})
    assert facts["a"] == {"task": {}}


async def test_the_quick_look_shows_text_that_is_no_utf8(
    sqlite_store: SqliteStore, path: Path
) -> None:
    await three(sqlite_store)
    garble(path, "b", "facts")

    rows = {row["agent_id"]: row["damaged"] for row in peek.read_rows(path)}

    assert rows == {"a": "", "b": "no UTF-8 in facts", "c": ""}
