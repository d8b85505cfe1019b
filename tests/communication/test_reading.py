"""One look at a mailbox: what counts as a signal, and what never does."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from communication.mailbox import Mailbox, ReadingKind
from communication.model import BreakpointType
from tests.communication.hearing import AGENT, mail, read, word
from tests.fuzzing import examples
from tests.pace import shortest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AT_ONCE = 1.0
DOCUMENTED = """{
  "agent-T001": {
    "lifecycle_state": "complete",
    "breakpoint": {
      "type": "task_complete",
      "task_id": "T001",
      "summary": "Implemented calculator API"
    }
  }
}
"""


def test_the_documented_form_is_a_signal(file: Path) -> None:
    file.write_text(DOCUMENTED)
    reading = read(file, spawn_id="spawn-1", task_id="T001")
    assert reading.kind is ReadingKind.SIGNAL
    assert reading.problem == ""
    assert reading.breakpoint is not None
    assert reading.breakpoint.type is BreakpointType.TASK_COMPLETE
    assert reading.breakpoint.summary == "Implemented calculator API"
    assert reading.entry is not None
    assert reading.entry.lifecycle_state == "complete"


def test_no_file_is_absent_and_a_good_file_without_our_breakpoint_is_quiet(file: Path) -> None:
    assert read(file).kind is ReadingKind.ABSENT
    for text in (
        "{}",
        mail(other=word()),
        mail(_meta={"version": 1}),
        json.dumps({AGENT: {"working_on": "it", "breakpoint": None}}),
        json.dumps({AGENT: None}),
    ):
        file.write_text(text)
        assert read(file).kind is ReadingKind.QUIET, text


def test_a_missing_folder_is_an_absent_file(tmp_path: Path) -> None:
    assert read(tmp_path / "gone" / "communications.json").kind is ReadingKind.ABSENT
    (tmp_path / "file").write_text("")
    assert read(tmp_path / "file" / "communications.json").kind is ReadingKind.ABSENT


def test_a_byte_order_mark_is_no_fault(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + DOCUMENTED.encode())
    assert read(file).kind is ReadingKind.SIGNAL


def test_identities_count_where_they_are_expected_and_given(file: Path) -> None:
    file.write_text(mail(**{AGENT: word(spawn_id="spawn-3")}))
    assert read(file, spawn_id="spawn-3", task_id="T001").kind is ReadingKind.SIGNAL
    assert read(file).kind is ReadingKind.SIGNAL

    late = read(file, spawn_id="spawn-4")
    assert late.kind is ReadingKind.STALE
    assert "spawn-3" in late.problem
    assert "spawn-4" in late.problem

    foreign = read(file, spawn_id="spawn-3", task_id="T002")
    assert foreign.kind is ReadingKind.STALE
    assert "'T001'" in foreign.problem


def test_a_late_signal_is_stale_even_if_it_is_malformed(file: Path) -> None:
    file.write_text(
        mail(**{AGENT: {"breakpoint": {"type": "no such type", "spawn_id": "spawn-3"}}})
    )
    reading = read(file, spawn_id="spawn-4")
    assert reading.kind is ReadingKind.STALE
    assert reading.breakpoint is None


def test_the_digest_tells_signals_apart_and_nothing_else(file: Path) -> None:
    file.write_text(mail())
    first = read(file)
    file.write_text(mail(**{AGENT: {**word(), "working_on": "more"}, "other": word("x")}))
    assert read(file).digest == first.digest
    file.write_text(mail(**{AGENT: word(seq=2)}))
    assert read(file).digest not in ("", first.digest)


def _fifo(file: Path) -> None:
    os.mkfifo(file)


def _symlink(file: Path) -> None:
    file.with_name("elsewhere").write_text(DOCUMENTED)
    file.symlink_to(file.with_name("elsewhere"))


def _symlink_to_device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def _hard_link(file: Path) -> None:
    file.with_name("elsewhere").write_text(DOCUMENTED)
    file.hardlink_to(file.with_name("elsewhere"))


def _directory(file: Path) -> None:
    file.mkdir()


def _socket(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        where = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
        server.bind(f"/proc/self/fd/{where}/{file.name}")
        os.close(where)


def _sparse(file: Path) -> None:
    with file.open("wb") as opened:
        opened.truncate(300 * 1024 * 1024)


NODES: list[tuple[Callable[[Path], None], str]] = [
    (_fifo, "named pipe"),
    (_symlink, "symbolic link"),
    (_symlink_to_device, "symbolic link"),
    (_hard_link, "hard link"),
    (_directory, "directory"),
    (_socket, "socket"),
    (_sparse, "too large"),
]

GOOD = DOCUMENTED.encode()
CONTENTS: list[tuple[bytes, str]] = [
    (b"", "empty"),
    (b" \n", "empty"),
    (GOOD[: len(GOOD) // 2], "not valid JSON"),
    (GOOD[len(GOOD) // 2 :], "not valid JSON"),
    (GOOD + GOOD, "not valid JSON"),
    (b"[" * 100_000, "deeper than 64"),
    (b'{"a":' * 100_000, "deeper than 64"),
    (b"[" * 65 + b"]" * 65, "deeper than 64"),
    (b"[" * 100_000 + b"]" * 100_000, "deeper than 64"),
    (b"[" + b"[]," * 1_000_000 + b"[]]", "more than 200,000 values"),
    (b"[" + b"1.5," * 1_000_000 + b"1]", "more than 200,000 values"),
    (b'["' + b'\\"' * 2_000_000, "not valid JSON"),
    (b'{"a": ' + b"9" * 1_000_000 + b"}", "not valid JSON"),
    (bytes(range(256)), "not UTF-8"),
    (DOCUMENTED.encode("utf-16"), "not UTF-8"),
    ('{"a": "é"}'.encode("latin-1"), "not UTF-8"),
    (b"\x00" * 100, "not valid JSON"),
    (b'{"a": NaN}', "NaN"),
    (b'{"a": -Infinity}', "-Infinity"),
    (b'{"a": 1e999}', "out of range"),
    (b'{"a": "\\ud800"}', "surrogate"),
    (b'{"a": 1, "a": 1}', "'a' occurs twice"),
    (b'{"x": {"breakpoint": 1, "breakpoint": 2}}', "'breakpoint' occurs twice"),
    (b"[]", "top level is a list"),
    (b'"task_complete"', "top level is a str"),
    (b"null", "top level is a NoneType"),
]


@pytest.mark.parametrize(
    ("make", "reason"), NODES, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_file_that_is_no_plain_small_file_is_refused_at_once(
    file: Path, make: Callable[[Path], None], reason: str
) -> None:
    make(file)
    reading = read(file)
    assert reading.kind is ReadingKind.INVALID
    assert reason in reading.problem
    assert "communications.json" in reading.problem
    assert reading.digest
    assert shortest(lambda: read(file), AT_ONCE) < AT_ONCE


@pytest.mark.parametrize(("content", "reason"), CONTENTS, ids=range(len(CONTENTS)))
def test_content_that_is_not_strict_json_is_refused_with_its_reason(
    file: Path, content: bytes, reason: str
) -> None:
    file.write_bytes(content)
    reading = read(file)
    assert reading.kind is ReadingKind.INVALID
    assert reason in reading.problem
    assert len(reading.problem) < 300
    assert reading.digest
    assert shortest(lambda: read(file), AT_ONCE) < AT_ONCE


def test_nesting_up_to_the_limit_and_brackets_in_texts_are_fine(file: Path) -> None:
    deep = "[" * 62 + "]" * 62
    file.write_text(
        '{"other": {"x": ' + deep + "}, " + mail(**{AGENT: word("[{,\\" * 100_000)})[1:]
    )
    assert read(file).kind is ReadingKind.SIGNAL


ENTRIES: list[tuple[object, str]] = [
    ("task_complete", "not an object"),
    ([word()], "not an object"),
    ({"breakpoint": "task_complete"}, "breakpoint"),
    ({"breakpoint": {}}, "breakpoint.type"),
    ({"breakpoint": {"type": "finished"}}, "breakpoint.type"),
    ({"breakpoint": {"type": "task_complete", "summary": 5}}, "breakpoint.summary"),
    ({"breakpoint": {"type": "task_complete", "spawn_id": 5}}, "breakpoint.spawn_id"),
    ({"breakpoint": {"type": "blocked"}}, "blocked_on"),
    ({"breakpoint": {"type": "blocked", "blocked_on": [" "]}}, "blocked_on"),
    ({"breakpoint": {"type": "blocked", "blocked_on": [{"id": "T2"}]}}, "breakpoint.blocked_on"),
    ({"breakpoint": {"type": "question", "question": " "}}, "question needs its text"),
    ({**word(), "lifecycle_state": "blocked"}, "does not fit breakpoint type 'task_complete'"),
    ({**word(), "lifecycle_state": "running"}, "does not fit"),
    ({**word(), "lifecycle_state": "x" * 5000}, "does not fit"),
    ({**word(), "lifecycle_state": 5}, "lifecycle_state"),
]


@pytest.mark.parametrize(("entry", "reason"), ENTRIES, ids=range(len(ENTRIES)))
def test_an_entry_that_cannot_be_meant_so_is_invalid_with_its_reason(
    file: Path, entry: object, reason: str
) -> None:
    file.write_text(mail(**{AGENT: entry, "other": word()}))
    reading = read(file, spawn_id="spawn-1", task_id="T001")
    assert reading.kind is ReadingKind.INVALID
    assert reason in reading.problem
    assert AGENT in reading.problem
    assert len(reading.problem) < 400
    assert read(file, "other").kind is ReadingKind.SIGNAL


def test_a_broken_breakpoint_does_not_hide_what_the_agent_tells(file: Path) -> None:
    file.write_text(mail(**{AGENT: {"working_on": "the parser", "breakpoint": {"type": "?"}}}))
    entry = Mailbox(file).load().entry(AGENT)
    assert entry is not None
    assert entry.working_on == "the parser"
    assert Mailbox(file).load().entry("nobody") is None


def test_requests_reach_the_agent_they_name_and_those_to_everyone_reach_all(file: Path) -> None:
    file.write_text(
        mail(
            a={"requests": [["b", "please review"], ["c", "hurry"], ["b", 7]]},
            b={"requests": [["b", "note to myself"]]},
            c={"requests": "who has the key?"},
            d={"requests": {"to": "b", "text": "thanks"}},
            e="no object",
            _meta={"requests": [["b", "not an agent"]]},
        )
    )
    document = Mailbox(file).load()
    assert document.requests_to("b") == (
        ("a", "please review"),
        ("a", "7"),
        ("c", "who has the key?"),
        ("d", "thanks"),
    )
    assert document.requests_to("c") == (("a", "hurry"),)
    file.write_text("torn {")
    assert Mailbox(file).load().requests_to("b") == ()


def test_a_file_without_breakpoint_is_quiet_whatever_else_stands_in_it(file: Path) -> None:
    file.write_text(mail(**{AGENT: {"done": 5, "requests": [[[]]], "next": {"a": 1}, "x": []}}))
    assert read(file).kind is ReadingKind.QUIET
    assert Mailbox(file).load().entry(AGENT) is not None


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.builds(
            lambda cut, junk: GOOD[:cut] + junk + GOOD[cut:],
            st.integers(0, len(GOOD)),
            st.binary(max_size=6),
        ),
        st.builds(
            lambda value: json.dumps({AGENT: value, "b": value}).encode(),
            st.recursive(
                st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
                lambda inner: st.one_of(
                    st.lists(inner, max_size=3),
                    st.dictionaries(
                        st.sampled_from(
                            ["breakpoint", "type", "blocked", "requests", "added", "model_config"]
                        ),
                        inner,
                        max_size=4,
                    ),
                ),
                max_leaves=12,
            ),
        ),
    )
)
def test_no_content_makes_a_look_raise(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    document = Mailbox(file).load()
    reading = document.reading(AGENT, spawn_id="s", task_id="t")
    assert (reading.kind is ReadingKind.INVALID) == bool(reading.problem) or (
        reading.kind is ReadingKind.STALE
    )
    document.entry(AGENT)
    document.requests_to(AGENT)
