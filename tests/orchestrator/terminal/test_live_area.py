"""Lines at the end of a terminal are drawn in place, and others told above them."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING

import pytest

from orchestrator.terminal.live_area import LiveArea
from orchestrator.terminal.text import short_count, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def sized(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    def to(columns: int, lines: int) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("LINES", str(lines))

    to(40, 10)
    return to


@pytest.mark.usefixtures("sized")
def test_the_same_lines_are_not_drawn_again() -> None:
    stream = io.StringIO()
    area = LiveArea(stream)
    area.open()
    area.show(lambda: ["a", "b"])
    written = stream.getvalue()
    area.show(lambda: ["a", "b"])
    assert stream.getvalue() == written
    area.show(lambda: ["c"])
    assert stream.getvalue() == written + "\r\x1b[2A\x1b[Jc\n"


@pytest.mark.usefixtures("sized")
def test_what_is_told_stands_above_and_the_cursor_comes_back() -> None:
    stream = io.StringIO()
    area = LiveArea(stream)
    area.open()
    area.show(lambda: ["table"])
    area.print(lambda _width: ["fact"])
    assert stream.getvalue().endswith("\r\x1b[1A\x1b[Jfact\ntable\n")
    area.close()
    area.close()
    assert stream.getvalue().endswith("table\n\r\x1b[1A\x1b[J\x1b[?25h")
    assert stream.getvalue().count("\x1b[?25h") == 1


def test_another_size_begins_the_screen_anew_with_the_latest_facts(
    sized: Callable[[int, int], None],
) -> None:
    stream = io.StringIO()
    area = LiveArea(stream)
    area.open()
    for number in range(20):
        area.print(partial(wrapped, f"fact {number} with words that go on"))
    area.show(lambda: [f"table of {area.width}"])
    sized(30, 8)
    area.show(lambda: [f"table of {area.width}"])
    anew = stream.getvalue().rpartition("\x1b[2J")[2].splitlines()
    assert anew[-1] == "table of 26"
    assert anew[-3:-1] == ["fact 19 with words that go", "on"]
    assert len(anew) < 8
    assert max(map(len, anew)) <= 26


def test_a_closed_terminal_harms_nothing() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(text)

    area = LiveArea(Gone())
    area.open()
    area.show(lambda: ["a"])
    area.print(lambda _width: ["b"])
    area.close()


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, ""),
        (950, "950"),
        (1000, "1.00k"),
        (12_345, "12.3k"),
        (999_999, "1000k"),
        (1.24e6, "1.24M"),
    ],
)
def test_large_numbers_are_shown_in_three_digits(number: float, shown: str) -> None:
    assert short_count(int(number)) == shown
