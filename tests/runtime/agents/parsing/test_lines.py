"""Lines: cut whole out of any chunks, and never kept beyond the cap."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from runtime.agents.parsing.lines import LineCutter
from tests.runtime.agents.recorded import lines, parser


def cut(chunks: list[bytes], cap: int) -> tuple[list[bytes], int]:
    cutter = LineCutter(cap)
    found = [line for chunk in chunks for line in cutter.cut(chunk)]
    return found + cutter.end(), cutter.too_long


@given(
    text=st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\n\n", b"dddddddd"]), max_size=40),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=40),
)
def test_chunks_of_any_size_give_the_same_lines(text: list[bytes], sizes: list[int]) -> None:
    whole = b"".join(text)
    chunks, at = [], 0
    for size in sizes:
        chunks.append(whole[at : at + size])
        at += size
    chunks.append(whole[at:])
    short = [line for line in whole.split(b"\n") if len(line) <= 8]
    long = [line for line in whole.split(b"\n") if len(line) > 8]
    found, too_long = cut(chunks, 8)
    assert [line for line in found if line] == [line for line in short if line]
    assert too_long == len(long)


def test_a_line_without_end_takes_no_memory() -> None:
    chunk = b"x" * 65536
    tracemalloc.start()
    cutter = LineCutter()
    for _ in range(800):
        assert cutter.cut(chunk) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20
    assert cutter.too_long == 1
    assert cutter.cut(b"\nnext\n") == [b"next"]


def test_reading_a_long_run_takes_no_memory() -> None:
    said = [line for line in lines("claude", "ok") if line]
    reading = parser("claude")
    reading.feed(said[0])
    tracemalloc.start()
    for turn in range(3000):
        for line in said[1:4]:
            reading.feed(line.replace(b"toolu_", b"toolu_%d" % turn))
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 1 << 20
    assert reading.finish(-9).tool_calls == 3000


def test_what_the_outcome_does_not_need_is_not_parsed() -> None:
    broken = {
        "claude": b'{"type":"user","message":{}',
        "codex": b'{"type":"item.completed","item":{"id":"item_2","type":"command_execution"}',
        "gemini": b'{"type":"tool_result","tool_id":}',
        "copilot": b'{"type":"assistant.message_delta","data":}',
    }
    for name, line in broken.items():
        reading = parser(name, live=False)
        for each in lines(name, "ok"):
            reading.feed(each)
            if b"item.started" in each or name != "codex":
                reading.feed(line)
        assert "garbled" not in reading.finish(0).notes, name


def test_what_was_too_long_is_told() -> None:
    reading = parser("codex")
    reading.passed_over(3)
    assert reading.finish(1).notes == {"too_long": 3}
