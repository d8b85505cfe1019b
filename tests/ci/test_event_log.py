"""The log of events: numbered for ever, told once for ever, and no longer than it needs to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ci import event_log
from ci.errors import ProviderError
from ci.event_log import EventLog
from ci.events import Check, CheckState, CIEvent, CIEventType
from tests.ci.ports import CrashError, JsonDocuments

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME = "ci.test.events"


class Counted(JsonDocuments):
    """Documents that count how often they are read, and may refuse to forget."""

    reads = 0
    refuses = False

    async def all(self, collection: str) -> dict[str, dict[str, Any]]:
        self.reads += 1
        return await super().all(collection)

    async def delete(self, collection: str, key: str) -> None:
        if self.refuses:
            raise OSError("disk full")
        await super().delete(collection, key)

    @property
    def numbers(self) -> list[int]:
        return [int(key) for key in self.kept.get(NAME, {})]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few events be many."""
    monkeypatch.setattr(event_log, "KEPT", 20)
    monkeypatch.setattr(event_log, "AT_ONCE", 5)


def event(name: object, at: float = 1.0) -> CIEvent:
    return CIEvent(
        type=CIEventType.BUILD_FAILURE, event_id=str(name), at=at, branch="agent/a", sha="a" * 40,
        details=(Check(name="unit", state=CheckState.FAILED, excerpt="x" * 3000),),
    )  # fmt: skip


async def opened(documents: JsonDocuments) -> EventLog:
    opened = EventLog(NAME)
    await opened.open(documents)
    return opened


async def told(log: EventLog, events: Iterable[CIEvent]) -> list[str]:
    """Publish events and return the ids of those that a subscriber was told of."""
    heard: list[str] = []
    off = log.subscribe(lambda event: heard.append(event.event_id))
    for each in events:
        await log.publish(each)
    await log.flush()
    off()
    return heard


async def ids(log: EventLog, cursor: int = 0) -> list[str]:
    return [each.event_id for each in (await log.since(cursor)).events]


async def test_reading_back_reads_and_checks_nothing_again() -> None:
    documents = Counted()
    log = await opened(documents)
    await told(log, map(event, range(1000)))
    reads = documents.reads

    first, second = await log.since(0), await log.since(0)
    assert documents.reads == reads
    assert len(first.events) == 1000
    assert all(a is b for a, b in zip(first.events, second.events, strict=True))


@pytest.mark.usefixtures("small")
async def test_no_more_than_the_newest_are_kept() -> None:
    documents = Counted()
    log = await opened(documents)
    await told(log, map(event, range(103)))

    assert 20 <= len(documents.numbers) < 25
    assert await ids(log) == [str(n - 1) for n in documents.numbers]
    assert documents.numbers[-1] == 103
    log = await opened(documents)
    assert len(documents.numbers) == 20
    assert await ids(log) == [str(n) for n in range(83, 103)]


@pytest.mark.usefixtures("small")
async def test_a_cursor_is_good_for_ever() -> None:
    documents = Counted()
    log = await opened(documents)
    await told(log, map(event, range(100)))
    batch = await log.since(0)
    assert batch.cursor == 100

    log = await opened(documents)
    assert await log.since(100) == batch.model_copy(update={"events": ()})
    await told(log, [event("new")])
    later = await log.since(100)
    assert ([each.event_id for each in later.events], later.cursor) == (["new"], 101)
    assert (await ids(log, 3))[0] == (await ids(log))[0], "what is gone is passed over"


async def test_news_of_something_long_past_is_told_and_kept_over_a_restart() -> None:
    documents = Counted()
    log = await opened(documents)
    assert await told(log, [event("merged", at=1.0)]) == ["merged"]
    again = await opened(documents)
    assert [each.event_id for each in (await again.since(0)).events] == ["merged"]


@pytest.mark.usefixtures("small")
async def test_what_is_forgotten_is_not_told_anew() -> None:
    documents = Counted()
    log = await opened(documents)
    every = [event(n) for n in range(103)]
    await told(log, every)

    assert await told(log, every) == []
    log = await opened(documents)
    assert await told(log, every) == []
    assert log.knows("0")
    assert not log.knows("103")


@pytest.mark.usefixtures("small")
async def test_the_ids_of_forgotten_events_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "DOCUMENTS", 3)
    documents = Counted()
    log = await opened(documents)
    await told(log, map(event, range(100)))

    for each in (log, await opened(documents)):
        assert len(documents.kept[f"{NAME}.ids"]) == 3
        assert (each.knows("0"), each.knows("79"), each.knows("99")) == (False, True, True)


@pytest.mark.usefixtures("small")
async def test_what_cannot_be_forgotten_is_told_all_the_same_and_forgotten_later() -> None:
    documents = Counted()
    documents.refuses = True
    log = await opened(documents)
    assert len(await told(log, map(event, range(50)))) == 50
    assert len(documents.numbers) == len(await ids(log)) == 50
    documents.refuses = False
    log = await opened(documents)
    assert documents.numbers == list(range(31, 51))
    assert await told(log, map(event, range(50))) == []


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("writes", range(40, 46))
async def test_a_crash_while_forgetting_neither_loses_nor_repeats(writes: int) -> None:
    documents = Counted()
    documents.lives_for = writes
    log = await opened(documents)
    heard: list[str] = []
    log.subscribe(lambda event: heard.append(event.event_id))

    async def publish_until_the_crash() -> None:
        for n in range(60):
            await log.publish(event(n))

    with pytest.raises(CrashError):
        await publish_until_the_crash()
    await log.flush()

    again = await opened(Counted(documents.kept))
    heard += await told(again, map(event, range(60)))
    assert heard == [str(n) for n in range(60)]


async def test_a_record_that_is_damaged_is_named() -> None:
    documents = JsonDocuments()
    await documents.put(NAME, "000000000007", {"event": {"type": "odd"}})
    with pytest.raises(ProviderError, match="record 000000000007 of"):
        await opened(documents)


async def test_a_log_that_is_not_open_says_so() -> None:
    for asked in (EventLog(NAME).since(0), EventLog(NAME).publish(event(1))):
        with pytest.raises(ProviderError, match="not open"):
            await asked
