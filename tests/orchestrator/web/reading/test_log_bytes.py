"""Lines of a log from any place on, in both directions, whatever stands in it."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.web.reading.log_bytes import CHUNK, LONGEST, LogBytes, RawLine
from runtime.logs.files import trim

if TYPE_CHECKING:
    from pathlib import Path

GIGA = 1 << 30


def forwards(log: LogBytes, most: int) -> list[RawLine]:
    at, found = 0, list[RawLine]()
    while lines := log.after(at, most):
        found += lines
        at = lines[-1].end
    return found


def backwards(log: LogBytes, most: int) -> list[RawLine]:
    end, found = log.size, list[RawLine]()
    while lines := log.before(end, most):
        found = [*lines, *found]
        end = lines[0].at
    return found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs") / "1.log"


@given(
    lines=st.lists(st.binary(max_size=30).map(lambda each: each.replace(b"\n", b""))),
    ended=st.booleans(),
    most=st.integers(32, 100),
)
def test_both_directions_give_every_line_once(
    path: Path, lines: list[bytes], *, ended: bool, most: int
) -> None:
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    path.write_bytes(data)
    with LogBytes(path) as log:
        there = forwards(log, most)
        assert there == backwards(log, most)
    assert b"".join(each.data + b"\n" * each.whole for each in there) == data
    assert all(before.end == after.at for before, after in pairwise(there))


@pytest.mark.parametrize("length", [CHUNK - 1, CHUNK, CHUNK + 1, LONGEST - 1, LONGEST, 3 * LONGEST])
def test_a_very_long_line_comes_in_pieces(path: Path, length: int) -> None:
    data = b"one\n" + b"x" * length + b"\ntwo\n"
    path.write_bytes(data)
    for walk in (forwards, backwards):
        with LogBytes(path) as log:
            there = walk(log, CHUNK)
        assert b"".join(each.data + b"\n" * each.whole for each in there) == data
        assert (there[0].data, there[-1].data) == (b"one", b"two")
        assert len(there) <= 3 + 2 * length // LONGEST


def holed(path: Path, cap: int) -> bytes:
    """Write a log above its cap, and free its middle as a runner does."""
    line = b"".join(b"line %07d\n" % number for number in range(4 * cap // 13))
    path.write_bytes(line)
    if not trim(path, cap):
        pytest.skip("this file system has no holes")
    return line


def test_the_hole_of_a_log_above_its_cap_is_one_piece(path: Path) -> None:
    cap = 1 << 20
    data = holed(path, cap)
    with LogBytes(path) as log:
        there = forwards(log, CHUNK)
        assert there == backwards(log, CHUNK)
        [hole] = [each for each in there if each.hole]
        assert hole.end - hole.at > len(data) - cap
        assert all(data[each.at : each.end - 1] == each.data for each in there if each.whole)
        assert log.number(hole.end) is None
        assert log.number(there[3].at) == 4


@pytest.mark.parametrize("zeros", [512, 5000, CHUNK, 3 * CHUNK + 7])
def test_zeros_that_were_written_are_a_hole_as_well(path: Path, zeros: int) -> None:
    path.write_bytes(b"first\ncut" + b"\0" * zeros + b"rest\nlast\n")
    with LogBytes(path) as log:
        for there in (forwards(log, CHUNK), backwards(log, CHUNK)):
            assert (there[0].data, there[-1].data) == (b"first", b"last")
            assert sum(each.end - each.at for each in there) == log.size
            assert any(each.hole for each in there)


def test_ends_of_one_gigabyte_are_read_at_once(path: Path) -> None:
    with path.open("wb") as stream:
        stream.write(b"first\n" * 50_000)
        os.truncate(path, GIGA)
        stream.seek(GIGA)
        stream.write(b"\n" + b"last\n" * 50_000)
    begun = time.process_time()
    with LogBytes(path) as log:
        assert log.after(0)[0].data == b"first"
        assert log.before(log.size)[-1].data == b"last"
        [hole] = log.after(300_000)
        assert hole.hole
        assert hole.end == GIGA + 1
        assert log.before(GIGA)[0] == RawLine(300_000, GIGA, b"", whole=False, hole=True)
    assert time.process_time() - begun < 1.0


def test_any_byte_leads_to_its_line(path: Path) -> None:
    path.write_bytes(b"one\ntwo\nthree")
    with LogBytes(path) as log:
        found = [log.line_at(at) for at in range(-1, 15)]
    assert found == [0, *[0] * 4, *[4] * 4, *[8] * 7]


def test_what_is_no_file_is_not_read(path: Path) -> None:
    link = path.with_name("link.log")
    link.symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="link"):
        LogBytes(link)
    pipe = path.with_name("pipe.log")
    os.mkfifo(pipe)
    with pytest.raises(FileNotFoundError):
        LogBytes(pipe)
