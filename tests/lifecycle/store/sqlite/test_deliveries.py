"""What every store promises of deliveries, on each of them; then what the database adds to that."""

from __future__ import annotations

import asyncio
import random
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from ci.webhook_delivery import Delivery, DeliveryState, Hint
from lifecycle.errors import StoreDamagedError, StoreError
from lifecycle.store.reading import open_reader
from lifecycle.store.sqlite import deliveries as sql
from lifecycle.store.sqlite.deliveries import delivery_row
from tests.lifecycle.store.samples import BODY, begun, delivery
from tests.lifecycle.store.sqlite.growth import cost, two_sizes

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

    from lifecycle.store.sqlite.store import SqliteStore


RECEIVED, MATCHED, UNMATCHED, IGNORED, BROKEN = DeliveryState
HINT = Hint(repo="o/r", branch="feature", sha="abc", numbers=(7, 8), event="check_run.completed")
NOISE = random.Random(3).randbytes(900)  # noqa: S311  # the same in every run


def keys(found: tuple[Delivery, ...]) -> list[str]:
    return [each.key for each in found]


async def filled(store: SqliteStore, *names: str) -> None:
    for at, name in enumerate(names):
        assert await store.deliveries.add(delivery(name, received_at=float(at)))


@pytest.mark.parametrize("body", [b"", b"{}", b"\x00\xff", BODY, NOISE])
async def test_what_was_added_is_what_one_gets(store: SqliteStore, body: bytes) -> None:
    given = delivery(headers={"a": "ä \udcff", "b": ""}, body=body, hint=HINT)

    assert await store.deliveries.add(given) is True

    assert await store.deliveries.get("github:1") == given
    assert await store.deliveries.get("github:2") is None


async def test_text_that_is_not_unicode_is_shown_escaped(store: SqliteStore) -> None:
    given = delivery("github:\udcff", event="e\udcff")
    assert await store.deliveries.add(given)
    assert not await store.deliveries.add(given)

    await store.deliveries.settle(["github:\udcff"], BROKEN, "no \udcff", at=6.0)

    found = await store.deliveries.get("github:\udcff")
    assert found is not None
    assert (found.key, found.event, found.outcome) == (r"github:\udcff", r"e\udcff", r"no \udcff")


async def test_a_known_key_changes_nothing(store: SqliteStore) -> None:
    await store.deliveries.add(delivery())
    await store.deliveries.settle(["github:1"], MATCHED, "woke agent-1", at=6.0)

    again = delivery(body=b"other", event="other", received_at=9.0)
    assert await store.deliveries.add(again) is False

    found = await store.deliveries.get("github:1")
    assert found is not None
    assert (found.state, found.body, found.received_at) == (MATCHED, BODY, 5.0)


async def test_of_a_hundred_copies_at_once_one_is_news(store: SqliteStore) -> None:
    fresh = await asyncio.gather(*(store.deliveries.add(delivery()) for _ in range(100)))

    assert sum(fresh) == 1
    assert keys(await store.deliveries.waiting()) == ["github:1"]


async def test_what_waits_comes_oldest_first_and_whole(store: SqliteStore) -> None:
    await filled(store, "github:b", "github:a", "gitlab:c", "github:d")
    await store.deliveries.settle(["github:a"], IGNORED, "a star", at=6.0)

    waiting = await store.deliveries.waiting()
    assert keys(waiting) == ["github:b", "gitlab:c", "github:d"]
    assert {each.body for each in waiting} == {BODY}
    assert keys(await store.deliveries.waiting(limit=2)) == ["github:b", "gitlab:c"]


async def test_what_is_being_worked_on_is_not_handed_out_again(store: SqliteStore) -> None:
    await filled(store, *(f"github:{n}" for n in range(10)))
    busy = {f"github:{n}" for n in range(7)} | {"github:gone"}

    found = await store.deliveries.waiting(limit=2, without=busy)
    assert keys(found) == ["github:7", "github:8"]
    assert keys(await store.deliveries.waiting(limit=5, without=busy)) == [
        "github:7", "github:8", "github:9",
    ]  # fmt: skip


@pytest.mark.parametrize(("most", "count"), [(1, 1), (len(BODY), 1), (3 * len(BODY), 3)])
async def test_a_batch_has_so_many_bytes_and_at_least_one_delivery(
    store: SqliteStore, most: int, count: int
) -> None:
    await filled(store, *(f"github:{n}" for n in range(5)))

    assert len(await store.deliveries.waiting(most_bytes=most)) == count
    assert len(await store.deliveries.waiting()) == 5


async def test_what_nothing_waited_for_is_found_with_its_hint(store: SqliteStore) -> None:
    await filled(store, "github:1", "github:2", "github:3", "github:4")
    await store.deliveries.settle(
        ["github:3", "github:1"], UNMATCHED, "nobody waits", at=6.0, hint=HINT
    )

    first, second = await store.deliveries.unmatched()
    assert (first.key, second.key) == ("github:1", "github:3")
    assert (first.hint, first.outcome, first.settled_at) == (HINT, "nobody waits", 6.0)
    assert first.body == b""
    assert keys(await store.deliveries.unmatched(limit=1)) == ["github:1"]

    await store.deliveries.settle(["github:1"], MATCHED, "woke agent-1", at=7.0)
    matched = await store.deliveries.get("github:1")
    assert matched is not None
    assert (matched.state, matched.hint, matched.settled_at) == (MATCHED, HINT, 7.0)
    assert keys(await store.deliveries.unmatched()) == ["github:3"]


async def test_what_is_to_be_worked_on_again_waits_again(store: SqliteStore) -> None:
    await filled(store, "github:1", "github:2")
    await store.deliveries.settle(["github:1", "github:2"], IGNORED, "a star", at=6.0)

    await store.deliveries.settle(["github:1", "github:9"], RECEIVED, "again for ada", at=7.0)
    await store.deliveries.settle([], MATCHED, "", at=8.0)

    (waiting,) = await store.deliveries.waiting()
    assert (waiting.key, waiting.settled_at, waiting.outcome) == ("github:1", None, "again for ada")


async def test_a_list_goes_page_by_page_from_the_newest(store: SqliteStore) -> None:
    await filled(store, *(f"{'gitlab' if n % 3 == 0 else 'github'}:{n}" for n in range(12)))
    await store.deliveries.settle([f"github:{n}" for n in (1, 2, 4, 5)], BROKEN, "no", at=20.0)

    async def every(**which: Any) -> list[str]:
        names, before = list[str](), None
        while page := await store.deliveries.list(before=before, limit=3, **which):
            assert {each.body for _, each in page} == {b""}
            names += [each.key.partition(":")[2] for _, each in page]
            before = page[-1][0]
        return names

    assert await every() == [str(n) for n in reversed(range(12))]
    assert await every(provider="gitlab") == ["9", "6", "3", "0"]
    assert await every(state=BROKEN) == ["5", "4", "2", "1"]
    assert await every(state=RECEIVED, provider="github") == ["11", "10", "8", "7"]
    assert await every(state=BROKEN, provider="gitlab") == []


async def test_keys_are_found_by_how_they_begin(store: SqliteStore) -> None:
    await filled(store, "github:ab1", "github:ab2", "github:b", "github:a%", "gitlab:ab")

    assert await store.deliveries.keys("github:ab") == ("github:ab1", "github:ab2")
    assert await store.deliveries.keys("github:a%") == ("github:a%",)
    assert await store.deliveries.keys("git", limit=2) == ("github:a%", "github:ab1")
    assert await store.deliveries.keys("ab") == ()


async def test_old_ones_are_forgotten_once_they_are_worked_on(store: SqliteStore) -> None:
    names = [f"github:{n:04}" for n in range(1200)]
    await asyncio.gather(
        *(store.deliveries.add(delivery(name, received_at=float(at), body=b"{}"))
          for at, name in enumerate(names))
    )  # fmt: skip
    await store.deliveries.settle(names[1:1150], MATCHED, "woke agent-1", at=2000.0)
    await store.deliveries.settle(names[2:4], UNMATCHED, "nobody waits", at=2000.0)

    assert await store.deliveries.prune(1100.0) == 1099
    assert await store.deliveries.prune(1100.0) == 0

    left = [each.key for _, each in await store.deliveries.list(limit=1000)]
    assert sorted(left) == [names[0], *names[1100:]]
    assert await store.deliveries.add(delivery(names[5])), "it is not known any more"


async def test_a_number_that_makes_no_sense_is_refused(store: SqliteStore) -> None:
    for refused in (
        store.deliveries.waiting(limit=0),
        store.deliveries.unmatched(limit=0),
        store.deliveries.keys("a", limit=0),
        store.deliveries.list(limit=1001),
    ):
        with pytest.raises(ValueError, match="limit must be"):
            await refused


# --- the database ------------------------------------------------------------------------------


async def test_a_body_takes_no_more_room_than_it_must(store: SqliteStore, path: Path) -> None:
    for key, body in (("github:long", BODY), ("github:noise", NOISE), ("github:short", b"{}")):
        await store.deliveries.add(delivery(key, body=body))

    with closing(open_reader(path)) as connection:
        kept = dict(connection.execute("SELECT key, length(body) FROM deliveries"))
    assert kept["github:long"] < len(BODY) / 10
    assert (kept["github:noise"], kept["github:short"]) == (len(NOISE), 2)


async def test_nothing_is_read_of_bodies_that_are_not_handed_out(
    store: SqliteStore,
) -> None:
    """A body that is damaged shows whether anybody looks at it."""
    await filled(store, "github:busy", "github:new", "github:later")
    await store._driver.write(
        lambda connection: (
            connection.execute(
                "UPDATE deliveries SET body = x'00' WHERE key <> 'github:new'"
            ).rowcount
        )
    )

    found = await store.deliveries.waiting(limit=1, without={"github:busy"})
    assert keys(found) == ["github:new"]


async def test_a_damaged_body_is_told_with_its_key(store: SqliteStore) -> None:
    await store.deliveries.add(delivery())
    await store._driver.write(
        lambda connection: connection.execute("UPDATE deliveries SET body = x'00'").rowcount
    )

    with pytest.raises(StoreDamagedError, match="github:1"):
        await store.deliveries.get("github:1")
    assert [each.key for _, each in await store.deliveries.list()] == ["github:1"]


async def test_what_may_not_have_reached_the_disk_is_not_acknowledged(
    store: SqliteStore, path: Path
) -> None:
    """The log is moved away for a moment, so that nobody can wait for it."""
    await begun(store)
    log = path.with_name("state.db-wal")
    away = log.rename(log.with_name("away"))

    added, put = await asyncio.gather(
        store.deliveries.add(delivery()),
        store.put("c", "k", {}),
        return_exceptions=True,
    )

    away.rename(log)
    assert isinstance(added, StoreError)
    assert "may not have reached the disk" in str(added)
    assert put is None, "what others wrote is none the worse"
    assert not await store.deliveries.add(delivery()), "sent again, it is known and safe"


QUERIES = [
    (sql.WAITING, (100,)),
    (sql.AT, (17,)),
    (sql.UNMATCHED, (100,)),
    (sql.KEYS, ("github:1", "github:2", 10)),
    (sql.SETTLE, ("matched", "", 1.0, None, "github:12")),
    (sql.PRUNE, (50.0, 500)),
    (sql.PRUNE_IGNORED, (50.0, 40)),
    *(
        sql.listing(state, provider, before, 50)
        for state in (None, UNMATCHED)
        for provider in (None, "gitlab")
        for before in (None, 900)
    ),
]


def fill(connection: sqlite3.Connection, size: int) -> None:
    flush = sql.Flush(None)
    for n in range(size):
        state = list(DeliveryState)[n // 4 % 5]
        name = f"{('github', 'gitlab', 'gitea', 'generic')[n % 4]}:{n}"
        each = delivery(name, received_at=float(n), state=state, body=b"{}" * 900)
        flush.add(connection, delivery_row(each))


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[sqlite3.Connection]]:
    with two_sizes(tmp_path_factory.mktemp("deliveries"), fill) as made:
        yield made


@pytest.mark.parametrize(("query", "values"), QUERIES)
def test_the_work_of_a_query_does_not_grow_with_the_table(
    databases: list[sqlite3.Connection], query: str, values: list[Any]
) -> None:
    work = []
    for connection in databases:
        connection.execute("BEGIN")
        work.append(cost(connection, lambda each: each.execute(query, values).fetchall())[0])
        connection.execute("ROLLBACK")
    small, large = work
    assert large <= 1.2 * small + 1, work
