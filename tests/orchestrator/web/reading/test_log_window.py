"""What people see of a log: kinds, places to go on from, and bounds."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.web.reading.log_bytes import LogBytes
from orchestrator.web.reading.log_window import (
    MOST,
    ROOM,
    Asked,
    LogReader,
    LogWindowForm,
    window,
)
from runtime.agents.catalogue import adapter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLAIN = LogReader(None, lambda: 0.0)
CLAUDE = LogReader(adapter("claude"), lambda: 0.0, "/work/tree")


def asked(path: Path, reader: LogReader = PLAIN, **wish: Any) -> LogWindowForm:
    with LogBytes(path) as log:
        return window(log, reader, Asked(**wish))


def texts(shown: LogWindowForm) -> list[str]:
    return [each["text"] for each in shown["lines"]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "1.log"


def said(*blocks: dict[str, Any], kind: str = "assistant") -> bytes:
    body = {"type": kind, "message": {"content": list(blocks)}, "parent_tool_use_id": None}
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"


def tool(call: str, name: str, **given: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


def result(call: str, content: str, *, failed: bool = False) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": call,
        "content": content,
        "is_error": failed,
    }


REPORTS = b"".join(
    (
        b'{"type":"system","subtype":"init","session_id":"s","model":"opus"}\n',
        said({"type": "text", "text": "First the tests.\nThen the rest."}),
        said(tool("1", "Bash", command="npm test"), tool("2", "Edit", file_path="/work/tree/a.py")),
        said(result("1", "3 of 9 failed", failed=True), kind="user"),
        said(result("2", "fine"), kind="user"),
        b"not a report <script>\n",
        b'{"type":"assistant","message":{"content":[{"type":"te\n',
    )
)


def test_reports_of_a_program_are_told_by_their_kinds(path: Path) -> None:
    path.write_bytes(REPORTS)
    lines = asked(path, CLAUDE)["lines"]
    assert [(each["number"], each["kind"], each["text"]) for each in lines] == [
        (1, "note", "[starts with opus]"),
        (2, "words", "First the tests.\nThen the rest."),
        (3, "tool", "$ npm test"),
        (3, "tool", "Edit a.py"),
        (4, "error", "failed: Bash: npm test\n3 of 9 failed"),
        (6, "output", "not a report <script>"),
        (7, "output", "[a report that cannot be read]"),
    ]


def test_errors_only(path: Path) -> None:
    path.write_bytes(REPORTS)
    assert [each["kind"] for each in asked(path, CLAUDE, errors=True)["lines"]] == ["error"]
    path.write_bytes(b"fine\nError: no\n0 errors\nTraceback (most recent call last):\n")
    shown = asked(path, errors=True)
    assert texts(shown) == ["Error: no", "Traceback (most recent call last):"]


def test_windows_join_without_a_gap_in_both_directions(path: Path) -> None:
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(1000)))
    whole = [f"line {number}" for number in range(1000)]
    found, before = list[str](), None
    for _ in range(20):
        shown = asked(path, before=before, limit=70)
        found, before = texts(shown) + found, shown["before"]
        if before is None:
            break
    assert found == whole
    found, after = [], 0
    while (shown := asked(path, after=after, limit=70))["lines"]:
        found, after = found + texts(shown), shown["after"]
    shown = asked(path, after=0, limit=MOST)
    assert found == whole
    assert shown["lines"][-1]["number"] == 1000


def test_a_line_that_is_not_ended_is_open_and_comes_again(path: Path) -> None:
    path.write_bytes(b"one\n..")
    shown = asked(path)
    assert [each["open"] for each in shown["lines"]] == [False, True]
    with path.open("ab") as stream:
        stream.write(b"..\ntwo\n")
    assert texts(asked(path, after=shown["after"])) == ["....", "two"]


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07end\n", ["red end"]),
        (b"bad \xff\xfe utf\n", ["bad \ufffd\ufffd utf"]),
        ("turned \u202e round\n".encode(), ["turned  round"]),
        (b"10%\r50%\r100%\r\n", ["100%"]),
        (b"<script>alert(1)</script>\n", ["<script>alert(1)</script>"]),
        (b"\n\n", ["", ""]),
        (b"", []),
        (
            b"[... 1234567 bytes left out ...]\n",
            ["1,234,567 bytes left out: the log was above its cap"],
        ),
    ],
)
def test_hostile_text_is_made_safe(path: Path, data: bytes, shown: list[str]) -> None:
    path.write_bytes(data)
    assert texts(asked(path)) == shown


def test_a_very_long_line_is_cut_and_says_so(path: Path) -> None:
    path.write_bytes(b"x" * 1_000_000 + b"\nend\n")
    long, end = asked(path)["lines"]
    assert len(long["text"]) == ROOM
    assert long["left_out"] == 1_000_000 - ROOM
    assert end["text"] == "end"
    assert asked(path, CLAUDE)["lines"][-1]["text"] == "end"


def test_a_window_of_long_lines_is_bounded(path: Path) -> None:
    path.write_bytes((b"y" * 5000 + b"\n") * MOST)
    assert sum(map(len, texts(asked(path, limit=MOST)))) < 300_000


def test_secrets_are_masked(path: Path) -> None:
    path.write_bytes(b"key=hunter2\n")
    reader = LogReader(None, lambda: 0.0, "", lambda text: text.replace("hunter2", "***"))
    assert texts(asked(path, reader)) == ["key=***"]


@pytest.mark.parametrize("reader", [PLAIN, CLAUDE])
def test_a_search_finds_the_next_line_in_its_direction(path: Path, reader: LogReader) -> None:
    lines = [b"line %d\n" % number for number in range(5000)]
    path.write_bytes(b"".join(lines))
    place = path.read_bytes().find(b"line 2500\n")
    up = asked(path, reader, q="LINE 2500")
    assert up["found"] == place
    assert "line 2500" in texts(up)
    assert texts(up)[0] == "line 2495"
    down = asked(path, reader, q="line 25", after=place + 1)
    assert down["found"] == place + 10
    nothing = asked(path, reader, q="nowhere")
    assert (nothing["found"], nothing["goes_on"]) == (None, None)
    assert nothing["lines"]


def test_a_search_finds_words_and_not_the_form_of_reports(path: Path) -> None:
    path.write_bytes(REPORTS)
    assert asked(path, CLAUDE, q='"type"')["found"] is None
    assert asked(path, CLAUDE, q="then the REST")["found"] == REPORTS.find(b'{"type":"assistant"')


def gigabyte(path: Path) -> None:
    """A log of 1 GB; its middle is a hole, as a log above its cap has it while it is written."""
    with path.open("wb") as stream:
        stream.write(REPORTS * 2000)
        stream.seek(1 << 30)
        stream.write(b"\n" + REPORTS * 2000)


@pytest.mark.parametrize("wish", [{}, {"after": 0}, {"at": 1 << 29}])
@pytest.mark.parametrize("reader", [PLAIN, CLAUDE])
def test_windows_of_one_gigabyte_come_at_once(
    path: Path, reader: LogReader, wish: dict[str, int]
) -> None:
    gigabyte(path)
    best = _best(lambda: asked(path, reader, **wish))
    assert best < 0.5  # of a processor; 0.05 s on a machine that does nothing else


def test_a_search_is_bounded_and_says_where_it_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.web.reading.log_window.SEARCHED", 1 << 20)
    path.write_bytes(b"hay\n" * (1 << 20) + b"needle\n")
    place: int | None = 0
    asks = 0
    while place is not None:
        shown = asked(path, q="needle", after=place)
        assert shown["looked"] < 1 << 21
        place, asks = shown["goes_on"], asks + 1
        if shown["found"] is not None:
            break
    else:
        pytest.fail("it was not found")
    assert 3 <= asks <= 5


def _best(call: Callable[[], object]) -> float:
    took = []
    for _ in range(5):
        begun = time.process_time()
        call()
        took.append(time.process_time() - begun)
    return min(took)
