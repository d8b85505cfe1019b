# ruff: noqa: S608  # statements of a forger
"""The audit: every act with who and why, in a chain that shows each kind of change."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.audit import LONGEST, Act, Audit, AuditCheck, AuditHead, seal
from lifecycle.errors import RecordsLostError
from lifecycle.store.sqlite import file
from lifecycle.store.sqlite.audit_trail import (
    FileNote,
    SqliteTrail,
    TrailReader,
    TrailWriter,
    note_path,
    read_note,
)
from lifecycle.store.sqlite.driver import FileDriver
from lifecycle.store.sqlite.store import SqliteStore
from lifecycle.store.sqlite.writer import Writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from lifecycle.audit import AuditEntry, AuditFinding


def act(number: int = 1, **fields: Any) -> Act:
    return Act(
        **{
            "at": 1000.0 + number,
            "actor": "ada",
            "action": "stop",
            "subject": f"agent-{number}",
            "outcome": "asked",
            **fields,
        }
    )


class Kept:
    """A trail in a database, with the writer it needs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ledger = TrailWriter(FileNote(path))
        self.writer = Writer(
            lambda: file.open_writer(path, durable=False, patience=10),
            lambda problem: file.explain(problem, path),
        )

    async def open(self) -> None:
        await self.writer.open()
        self.driver = FileDriver(self.path, self.writer)
        self.trail = SqliteTrail(self.driver, self.ledger)

    async def write(self, *acts: Act) -> tuple[AuditEntry, ...]:
        written = await self.trail.append(acts)
        await self.writer.read(self.ledger.note_newest)
        return written

    async def close(self) -> None:
        await self.driver.close()
        self.ledger.note.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".loopwright" / "state.db"


@pytest.fixture
async def kept(path: Path) -> AsyncIterator[Kept]:
    made = Kept(path)
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def ten(kept: Kept) -> Path:
    """Return a database with ten entries whose writer is gone."""
    for number in range(1, 11):
        await kept.write(act(number))
    await kept.close()
    return kept.path


def tamper(path: Path, *statements: str) -> None:
    """Do what somebody with the file in hand can do."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TRIGGER audit_is_not_changed")
        connection.execute("DROP TRIGGER audit_is_not_shortened")
        for statement in statements:
            connection.execute(statement)


def findings(path: Path) -> tuple[AuditFinding, ...]:
    return TrailReader(path).verify().findings


async def test_what_is_recorded_can_be_read_with_who_and_why(kept: Kept) -> None:
    audit = Audit(kept.trail, now=lambda: 77.5)
    made = await audit.record(
        "stop", "ada", "agent-1", "refused", "no such agent", {"asked_by": ["cli", 3]}
    )
    assert (made.seq, made.at, made.actor, made.reason) == (1, 77.5, "ada", "no such agent")
    assert json.loads(made.details) == {"asked_by": ["cli", 3]}
    assert await kept.trail.entries() == (made,)
    assert made.to_json()["details"] == {"asked_by": ["cli", 3]}


async def test_a_trail_that_nobody_touched_is_whole(kept: Kept) -> None:
    assert TrailReader(kept.path).verify().whole
    for number in range(1, 8):
        await kept.write(act(number))
    verdict = TrailReader(kept.path).verify()
    assert (verdict.whole, verdict.count) == (True, 7)
    assert verdict.head is not None
    assert verdict.head.seq == 7
    newest = await kept.trail.entries(newest=True, limit=2)
    assert [entry.seq for entry in newest] == [6, 7]
    assert [entry.seq for entry in await kept.trail.entries(after=5)] == [6, 7]


def test_the_database_itself_refuses_to_change_or_shorten_the_trail(ten: Path) -> None:
    with closing(sqlite3.connect(ten)) as connection:
        for statement in ("UPDATE audit SET actor = 'bob'", "DELETE FROM audit WHERE seq = 10"):
            with pytest.raises(sqlite3.IntegrityError, match="only ever added to"):
                connection.execute(statement)
    assert findings(ten) == ()


@pytest.mark.parametrize(
    "change",
    [
        "at = 1.0",
        "actor = 'bob'",
        "action = 'spawn'",
        "subject = 'agent-9'",
        "outcome = 'done'",
        "reason = 'x'",
        """details = '{"a":1}'""",
        "actor = 'ada\",\"stop', action = ''",
    ],
)
def test_a_changed_field_is_found_with_its_entry(ten: Path, change: str) -> None:
    tamper(ten, f"UPDATE audit SET {change} WHERE seq = 4")
    (found,) = findings(ten)
    assert found.seq == 4
    assert "was changed" in found.text


def test_a_changed_entry_with_a_fitting_hash_is_found_at_the_next(ten: Path) -> None:
    with closing(sqlite3.connect(ten)) as connection:
        prev = connection.execute("SELECT prev_hash FROM audit WHERE seq = 4").fetchone()[0]
    forged = seal(act(4, actor="bob"), 4, prev)
    tamper(ten, f"UPDATE audit SET actor = 'bob', hash = '{forged.hash}' WHERE seq = 4")
    (found,) = findings(ten)
    assert found.seq == 5
    assert "does not follow" in found.text


def test_an_entry_taken_out_is_found(ten: Path) -> None:
    tamper(ten, "DELETE FROM audit WHERE seq = 4")
    (found,) = findings(ten)
    assert (found.seq, found.text) == (5, "entry 4 is missing before it")


def test_an_entry_taken_out_with_the_others_renumbered_is_found(ten: Path) -> None:
    tamper(
        ten, "DELETE FROM audit WHERE seq = 4", *(
            f"UPDATE audit SET seq = {seq - 1} WHERE seq = {seq}" for seq in range(5, 11)
        ),
    )  # fmt: skip
    assert findings(ten)[0].seq == 4


def test_a_tail_that_was_cut_off_is_found_by_the_note_beside_the_database(ten: Path) -> None:
    tamper(ten, "DELETE FROM audit WHERE seq > 7")
    note = note_path(ten).read_bytes()
    last = TrailReader(ten).newest(1)[0]
    note_path(ten).write_text(json.dumps({"seq": last.seq, "hash": last.hash}))
    assert findings(ten) == ()  # without the true note nothing shows it
    note_path(ten).write_bytes(note)
    (found,) = findings(ten)
    assert (found.seq, found.text) == (10, "entries 8 to 10 are cut off at the end")


async def test_a_trail_that_is_rewritten_is_found_by_the_note(ten: Path) -> None:
    trail = SqliteStore.in_memory().trail
    entries = await trail.append([act(number, actor="bob") for number in range(1, 11)])
    tamper(
        ten,
        *(
            f"UPDATE audit SET actor = 'bob', prev_hash = '{each.prev_hash}', "
            f"hash = '{each.hash}' WHERE seq = {each.seq}"
            for each in entries
        ),
    )
    (found,) = findings(ten)
    assert found.seq == 10
    assert "note" in found.text


def test_a_note_that_is_gone_is_found(ten: Path) -> None:
    note_path(ten).unlink()
    (found,) = findings(ten)
    assert "is gone" in found.text


async def test_a_later_writer_does_not_cover_up_a_cut(ten: Path) -> None:
    tamper(ten, "DELETE FROM audit WHERE seq > 7")
    again = Kept(ten)
    await again.open()
    written = await again.write(act(20), act(21))
    await again.write(act(22))
    await again.close()
    assert [entry.seq for entry in written] == [12, 13]
    found = findings(ten)
    assert [each.seq for each in found] == [11, 11]
    assert "entries 8 to 10 are missing" in found[0].text
    assert "the note names entry 10, but the trail ended at 7" in found[1].text
    note = read_note(note_path(ten))
    assert note is not None
    assert note.seq == 14


@pytest.mark.parametrize("with_note", [False, True])
async def test_a_cut_under_a_living_writer_is_told_and_its_gap_stays(
    kept: Kept, *, with_note: bool
) -> None:
    for number in range(1, 11):
        await kept.write(act(number))
    tamper(kept.path, "DELETE FROM audit WHERE seq > 7")
    if with_note:
        last = TrailReader(kept.path).newest(1)[0]
        note_path(kept.path).write_text(json.dumps({"seq": last.seq, "hash": last.hash}))
    await kept.write(act(20), act(21))
    await kept.write(act(22))
    found = findings(kept.path)
    assert [each.seq for each in found] == [11, 11]
    assert "entries 8 to 10 are missing" in found[0].text
    assert "entry 10 was taken out or changed while the runner wrote" in found[1].text
    assert [each.seq for each in TrailReader(kept.path).newest(4)] == [11, 12, 13, 14]


async def test_each_cut_under_a_living_writer_is_told(kept: Kept) -> None:
    await kept.write(act(1), act(2))
    tamper(kept.path, "DELETE FROM audit WHERE seq > 1")
    await kept.write(act(3), act(4))
    with closing(sqlite3.connect(kept.path)) as connection, connection:
        connection.execute("DELETE FROM audit WHERE seq > 4")
    await kept.write(act(5))
    await kept.write(act(6))
    broken = [each.seq for each in findings(kept.path) if "was broken" in each.text]
    assert broken == [3, 6]


async def test_what_another_process_takes_out_before_the_note_is_not_noted(kept: Kept) -> None:
    await kept.write(act(1), act(2), act(3))
    await kept.trail.append((act(4),))
    tamper(kept.path, "DELETE FROM audit WHERE seq > 1")
    await kept.writer.read(kept.ledger.note_newest)
    assert "cut off" in findings(kept.path)[0].text


@pytest.mark.parametrize("what", ["note", "last"])
async def test_a_later_writer_does_not_cover_up_a_lost_note_or_a_rewritten_end(
    ten: Path, what: str
) -> None:
    if what == "note":
        note_path(ten).unlink()
    else:
        with closing(sqlite3.connect(ten)) as connection:
            prev = connection.execute("SELECT prev_hash FROM audit WHERE seq = 10").fetchone()[0]
        forged = seal(act(10, actor="bob"), 10, prev)
        tamper(ten, f"UPDATE audit SET actor = 'bob', hash = '{forged.hash}' WHERE seq = 10")
    again = Kept(ten)
    await again.open()
    await again.write(act(20))
    await again.close()
    (found,) = findings(ten)
    assert found.seq == 11
    assert "notes that the trail was broken" in found.text


async def test_no_new_database_is_made_in_silence_beside_an_old_note(ten: Path) -> None:
    for part in ("", "-wal", "-shm"):
        ten.with_name(ten.name + part).unlink(missing_ok=True)
    again = Kept(ten)
    with pytest.raises(RecordsLostError, match="tells of an audit"):
        await again.open()
    again.ledger.note.close()
    assert not ten.exists()  # noqa: ASYNC240  # a test has the loop to itself


async def test_an_act_is_held_only_with_the_change_it_tells_of(kept: Kept) -> None:
    def fails(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO documents (collection, key, body) VALUES ('c', 'k', '')")
        raise ValueError("no")

    def works(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO documents (collection, key, body) VALUES ('c', 'l', '')")

    with pytest.raises(ValueError, match="no"):
        await kept.writer.write(kept.ledger.together(fails, (act(1),)))
    await kept.writer.write(kept.ledger.together(works, (act(2),)))
    await kept.writer.read(kept.ledger.note_newest)
    assert [entry.subject for entry in await kept.trail.entries()] == ["agent-2"]
    assert findings(kept.path) == ()


async def test_a_break_whose_note_was_rolled_back_is_noted_again(ten: Path) -> None:
    tamper(ten, "DELETE FROM audit WHERE seq > 7")
    again = Kept(ten)
    await again.open()

    def fails(connection: sqlite3.Connection) -> None:
        again.ledger.append(connection, (act(20),))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await again.writer.write(fails)
    await again.writer.read(again.ledger.note_newest)
    assert len(findings(ten)) == 1
    await again.writer.write(lambda connection: again.ledger.append(connection, (act(21),)))
    await again.write(act(22), act(23))
    await again.close()
    assert [(each.seq, "missing" in each.text) for each in findings(ten)] == [
        (11, True),
        (11, False),
    ]


async def test_a_crash_right_after_the_first_entry_leaves_a_whole_trail(kept: Kept) -> None:
    await kept.trail.append((act(1),))  # committed, and the process is gone before it is noted
    assert findings(kept.path) == ()
    note_path(kept.path).unlink()
    assert "is gone" in findings(kept.path)[0].text


async def test_two_processes_that_write_at_once_make_one_chain(kept: Kept) -> None:
    other = Kept(kept.path)
    await other.open()
    await asyncio.gather(
        *(each.write(act(number)) for number in range(50) for each in (kept, other))
    )
    await other.close()
    verdict = TrailReader(kept.path).verify()
    assert (verdict.count, verdict.findings) == (100, ())


async def test_a_trail_is_whole_at_any_moment_while_it_is_written(kept: Kept) -> None:
    async def write() -> None:
        for number in range(200):
            await kept.write(act(number))

    writing = asyncio.ensure_future(write())
    while not writing.done():
        reader = TrailReader(kept.path)
        assert (await asyncio.to_thread(reader.verify)).findings == ()
    await writing


def test_no_text_can_look_like_another_entry_or_line() -> None:
    nasty = 'x\n{"seq": 99}\r\x1b[2J\x00","forged","'
    sealed = seal(act(1, actor=nasty, reason=nasty, details={nasty: nasty}), 1, "0" * 64)
    line = json.dumps(sealed.to_json())
    assert "\n" not in line
    assert json.loads(line)["actor"] == nasty
    # The same text split differently between fields is another entry.
    one = seal(act(1, actor='a","b', action="c"), 1, "0" * 64)
    two = seal(act(1, actor="a", action='b","c'), 1, "0" * 64)
    assert one.hash != two.hash


async def test_long_and_undecodable_texts_are_kept_in_part(kept: Kept) -> None:
    (made,) = await kept.write(act(1, actor="half \udc80", reason="x" * 10_000))
    assert made.actor == "half \\udc80"
    assert len(made.reason) == LONGEST
    assert findings(kept.path) == ()


async def test_each_finding_names_its_own_entry() -> None:
    trail = SqliteStore.in_memory().trail
    entries = list(await trail.append([act(number) for number in range(1, 6)]))
    changes: list[Callable[[], object]] = [lambda: entries.pop(1), lambda: entries.pop(2)]
    for change in changes:
        change()
    check = AuditCheck(AuditHead(5, entries[-1].hash))
    check.take(entries)
    assert [each.seq for each in check.verdict().findings] == [3, 5]
