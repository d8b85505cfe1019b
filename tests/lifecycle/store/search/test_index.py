"""What is found, how soon, and what becomes of an index that is missing, old or damaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from lifecycle.machine import events as on
from lifecycle.machine import states as st
from lifecycle.record import JournalEntry, Transaction
from lifecycle.store.search import index as module
from lifecycle.store.search.index import SearchError, SearchIndex, SearchQuestion
from lifecycle.store.search.question import match_of
from lifecycle.store.search.texts import KINDS, PEOPLE
from tests.lifecycle.store.samples import ACCEPTED, REJECTED, WORKING, lifecycle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lifecycle.machine.events import Event
    from lifecycle.record import AgentLifecycle
    from lifecycle.store.sqlite.store import SqliteStore


@pytest.fixture
def index(path: Path) -> Iterator[SearchIndex]:
    with SearchIndex(path, path.with_name("search.db"), path.with_name("summaries")) as made:
        yield made


async def put(store: SqliteStore, record: AgentLifecycle, *facts: Event, at: int = 1) -> None:
    entries = tuple(
        JournalEntry(
            agent_id=record.agent_id,
            seq=at + number,
            at=1.0,
            event=fact,
            rule="rule",
            before="Working",
            after="Working",
        )
        for number, fact in enumerate(facts)
    )
    await store.commit(Transaction(record=record, journal=entries))


def found(index: SearchIndex, text: str, **more: Any) -> list[tuple[int, str, int, str]]:
    """Return cursor, kind, attempt and marked text of each place."""
    while not index.catch_up().whole:
        pass
    return [
        (hit.cursor, each.kind, each.attempt, "".join(f"[{t}]" if m else t for t, m in each.parts))
        for hit in index.ask(SearchQuestion(text=text, **more)).hits
        for each in hit.places
    ]


RED = on.GatesFinished(
    at=1.0,
    attempt=13,
    gates=(st.Gate(command="pytest -q", ok=False, code=1, excerpt="test_feb_29 FAILED"),),
)
ASKS = on.BreakpointReached(
    at=1.0, attempt=2, word=st.Signal(type="question", question="Tabs or spaces?")
)
SAYS = on.Answered(at=1.0, by="Ada", text="Use tabulators, café style")


async def test_each_kind_of_text_is_found_with_its_attempt(
    store: SqliteStore, index: SearchIndex, path: Path
) -> None:
    record = lifecycle(
        task="Parse dates", task_id="T10", work=WORKING, error="no space left", tags=("blue",)
    )
    await put(store, record, ASKS, SAYS, RED)
    folder = path.with_name("summaries") / record.agent_id
    folder.mkdir(parents=True)
    (folder / "3.md").write_text("Attempts 1 and 2 ended alike", "utf-8")
    cursor = record.cursor
    assert found(index, "pars dates") == [(cursor, "task", 0, "[Parse] [dates]")]
    assert found(index, "T10")[0][:3] == (cursor, "task", 0)
    assert found(index, "blue") == [(cursor, "task", 0, "[blue]")]
    assert found(index, "tabs") == [(cursor, "words", 2, "[Tabs] or spaces?")]
    assert found(index, "CAFE") == [(cursor, "people", 0, "Use tabulators, [café] style")]
    assert found(index, "feb_29") == [(cursor, "checks", 13, "pytest -q\ntest_[feb_29] FAILED")]
    assert found(index, "space left") == [
        (cursor, "words", 2, "Tabs or [spaces]?"),
        (cursor, "facts", 0, "no [space] [left]"),
    ]
    assert found(index, "alike") == [(cursor, "summary", 3, "Attempts 1 and 2 ended [alike]")]
    assert found(index, '"or tabs"') == []
    assert found(index, "tabs", kinds=("task", "checks")) == []
    assert found(index, "13") == []  # the number of an attempt is no text


async def test_what_changed_a_moment_ago_is_found_and_what_was_removed_is_not(
    store: SqliteStore, index: SearchIndex
) -> None:
    one, two = lifecycle("agent-1", task="first apple"), lifecycle("agent-2", task="second apple")
    await store.create(one)
    await store.create(two)
    assert [each[0] for each in found(index, "apple")] == [two.cursor, one.cursor]
    await put(store, one, SAYS)  # the clock of these tests stands still
    assert [each[0] for each in found(index, "tabulators")] == [one.cursor]
    await store.delete(two.agent_id)
    assert [each[0] for each in found(index, "apple")] == [one.cursor]


async def test_pages_and_states_are_told_without_counting_twice(
    store: SqliteStore, index: SearchIndex
) -> None:
    works = [ACCEPTED, REJECTED, ACCEPTED, WORKING, ACCEPTED]
    for number, work in enumerate(works):
        await store.create(lifecycle(f"agent-{number}", task="pear", work=work))
    seen, before = list[int](), None
    while True:
        index.catch_up()
        page = index.ask(SearchQuestion(text="pear", before=before, limit=2))
        assert page.by_state == {"accepted": 3, "rejected": 1, "working": 1}
        seen += [hit.cursor for hit in page.hits]
        before = page.next
        if before is None:
            break
    assert seen == sorted(seen, reverse=True)
    assert len(seen) == len(works)
    only = index.ask(SearchQuestion(text="pear", states=("rejected",)))
    assert [hit.cursor for hit in only.hits] == [seen[3]]
    assert not index.ask(SearchQuestion(text="pear", since=5000.0)).hits


def spoil(file: Path) -> None:
    """Leave only the first page of a database."""
    data = file.read_bytes()
    file.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))


@pytest.mark.parametrize("harm", ["garbled", "of another form", "of another program", "half"])
async def test_a_damaged_index_is_made_anew_and_the_records_are_left_alone(
    store: SqliteStore, index: SearchIndex, path: Path, harm: str
) -> None:
    await store.create(lifecycle(task="plum"))
    assert found(index, "plum")
    index.close()
    file = path.with_name("search.db")
    if harm == "garbled":
        file.write_bytes(b"not a database at all" * 500)
    elif harm == "half":
        spoil(file)
    else:
        file.unlink()
        with closing(sqlite3.connect(file)) as other:
            other.execute("CREATE TABLE texts (a)")
            other.execute(f"PRAGMA user_version = {9 if harm == 'of another form' else 0}")
    assert found(index, "plum")
    assert file.stat().st_mode & 0o777 == 0o600


async def test_damaged_records_are_named_and_cost_the_index_nothing(
    store: SqliteStore, index: SearchIndex, path: Path
) -> None:
    await store.create(lifecycle(task="plum"))
    assert found(index, "plum")
    index.close()
    await store.aclose()
    with closing(sqlite3.connect(path)) as records:
        records.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    spoil(path)
    with pytest.raises(SearchError, match="the records cannot be read"):
        index.catch_up()
    index.close()
    with closing(sqlite3.connect(path.with_name("search.db"))) as left:
        assert left.execute("SELECT count(*) FROM known").fetchone() == (1,)


async def test_a_missing_module_of_sqlite_is_said_plainly(
    store: SqliteStore, index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.create(lifecycle())
    monkeypatch.setattr(module, "_MAKE", "CREATE VIRTUAL TABLE fts USING fts99(a);")
    with pytest.raises(SearchError, match="has no full-text search"):
        index.catch_up()


async def test_an_index_that_cannot_be_written_is_named(
    store: SqliteStore, path: Path, tmp_path: Path
) -> None:
    await store.create(lifecycle())
    with (
        SearchIndex(path, tmp_path / "nowhere" / "search.db", tmp_path) as lost,
        pytest.raises(SearchError, match=r"search\.db cannot be written"),
    ):
        lost.catch_up()
    with (
        SearchIndex(tmp_path / "none.db", tmp_path / "search.db", tmp_path) as empty,
        pytest.raises(SearchError, match="no records yet"),
    ):
        empty.catch_up()


async def test_two_processes_keep_one_index(
    store: SqliteStore, index: SearchIndex, path: Path
) -> None:
    await store.create(lifecycle("agent-1", task="fig"))
    with SearchIndex(path, path.with_name("search.db"), path.with_name("summaries")) as other:
        assert found(index, "fig")
        assert found(other, "fig")
        record = lifecycle("agent-2", task="fig tree")
        await store.create(record)
        assert found(other, "tree")
        assert found(index, "fig")[0][0] == record.cursor


TEXTS = some.text() | some.text('"*(){}:^-+ANDORNT \x00é日a1_', max_size=40)


@given(TEXTS)
def test_any_text_is_a_question(text: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE fts USING fts5({', '.join(KINDS)})")
        for kinds in ((), ("words", "facts")):
            match = match_of(text, kinds)
            if match:
                connection.execute("SELECT rowid FROM fts WHERE fts MATCH ?", (match,)).fetchall()


def test_what_belongs_to_people_is_what_the_machine_says() -> None:
    known = {each.__name__ for each in on.PersonEvent.__subclasses__()}
    assert known - {"RunnerOrder"} == PEOPLE  # that one is about no lifecycle
