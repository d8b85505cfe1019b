"""Logs that stay within their cap, and what is quoted from them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from runtime.logs import files

if TYPE_CHECKING:
    from pathlib import Path

CAP = 64 << 10


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "1.log"


def test_a_log_within_its_cap_is_left_as_it_is(log: Path) -> None:
    log.write_bytes(b"x" * CAP)
    inode = log.stat().st_ino
    assert not files.trim(log, CAP)
    assert files.finish(log, CAP) == 0
    assert log.read_bytes() == b"x" * CAP
    assert log.stat().st_ino == inode


def test_a_log_beyond_its_cap_keeps_head_and_tail_and_says_what_is_missing(log: Path) -> None:
    lines = b"".join(b"line %06d\n" % number for number in range(100_000))
    log.write_bytes(lines)
    missing = files.finish(log, CAP)
    short = log.read_bytes()
    assert len(short) <= CAP
    head, tail = short.split(b"\n[... %d bytes left out ...]\n" % missing)
    assert lines.startswith(head)
    assert lines.endswith(tail)
    assert len(head) + missing + len(tail) == len(lines)
    assert abs(len(head) - len(tail)) <= 1
    assert len(short) > CAP * 0.9
    assert log.stat().st_mode & 0o777 == 0o600
    assert list(log.parent.iterdir()) == [log]


def test_what_was_left_out_earlier_is_counted_in(log: Path) -> None:
    log.write_bytes(b"a" * 3 * CAP)
    first = files.finish(log, CAP)
    with log.open("ab") as stream:
        stream.write(b"b" * CAP)
    second = files.finish(log, CAP)
    short = log.read_bytes()
    assert second > first
    assert short.count(b"left out") == 1
    marker = b"\n[... %d bytes left out ...]\n" % second
    assert len(short) - len(marker) + second == 4 * CAP


def test_a_growing_log_gives_up_the_disk_space_of_its_middle(log: Path) -> None:
    with log.open("ab", buffering=0) as stream:
        for _ in range(4):
            stream.write(b"HEAD" if stream.tell() == 0 else b"")
            stream.write(b"x" * (CAP * 4))
            assert files.trim(log, CAP)
        stream.write(b"TAIL")
        size = stream.tell()
    info = log.stat()
    assert info.st_size == size
    assert info.st_blocks * 512 <= CAP + 4 * 4096
    files.finish(log, CAP)
    short = log.read_bytes()
    assert short.startswith(b"HEADx")
    assert short.endswith(b"xTAIL")
    assert b"\0" not in short


def test_a_missing_log_has_nothing_to_trim_finish_or_say(log: Path) -> None:
    assert not files.trim(log, CAP)
    assert files.finish(log, CAP) == 0
    assert files.tail(log, 100) == ""


def test_only_the_end_is_quoted(log: Path) -> None:
    log.write_text("one\ntwo\nthree\n")
    assert files.tail(log, 6) == "three\n"
    assert files.tail(log, 1000) == "one\ntwo\nthree\n"
    assert files.tail(log, 1000, start=8) == "three\n"


def test_escapes_and_controls_are_not_quoted(log: Path) -> None:
    log.write_bytes(
        b"\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b(B\r\n10%\r20%\n"
        b"\x00\x07\x08bell\tkept\n" + "abc\u202edcb \u2066x \u0085\n".encode()
    )
    assert files.tail(log, 1000) == "red link\n10%\n20%\nbell\tkept\nabcdcb x \n"


def test_bytes_that_are_not_text_are_replaced(log: Path) -> None:
    log.write_bytes(b"\xff\xfe caf\xe9\n")
    assert files.tail(log, 1000) == "\ufffd\ufffd caf\ufffd\n"


def test_a_character_cut_in_two_is_left_out(log: Path) -> None:
    log.write_text("ää", encoding="utf-8")
    assert files.tail(log, 3) == "ä"


@pytest.mark.parametrize("kind", ["fifo", "symlink", "folder"])
def test_only_a_regular_file_is_read(tmp_path: Path, log: Path, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(log)
    elif kind == "symlink":
        (tmp_path / "secret").write_text("secret")
        log.symlink_to(tmp_path / "secret")
    else:
        log.mkdir()
    assert files.tail(log, 100) == ""
    assert not files.trim(log, 0)


def test_a_hostile_log_is_cleaned_in_linear_time() -> None:
    assert files.clean("\x1b]" * 200_000) == ""
