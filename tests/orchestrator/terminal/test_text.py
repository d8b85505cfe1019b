"""How things look on a terminal."""

from __future__ import annotations

import io
import json

import pytest

from orchestrator.terminal import text


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain", "plain"),
        ("Grüße, 世界 👩\u200d💻", "Grüße, 世界 👩\u200d💻"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\u202eb\u2066c", "a\\u202eb\\u2066c"),
        ("a\x00\x07\x7f\x9b", "a\\x00\\x07\\x7f\\x9b"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("half \udc80", "half \\udc80"),
    ],
)
def test_what_could_fool_a_terminal_is_shown_as_an_escape(given: str, shown: str) -> None:
    assert text.safe(given) == shown


def test_lines_and_tabs_are_kept_where_they_belong() -> None:
    assert text.safe("a\n\tb\x1b", lines=True) == "a\n\tb\\x1b"
    assert text.one_line("a\n  b\tc") == "a b c"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0 s"),
        (0.9, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (86_400, "1 d"),
        (100_000, "1 d 3 h"),
    ],
)
def test_spans_are_told_in_two_units_at_most(seconds: float, shown: str) -> None:
    assert text.span(seconds) == shown


def test_an_instant_has_a_date_only_on_another_day() -> None:
    noon = 1_800_000_000.0
    assert len(text.instant(noon, noon)) == len("12:03")
    assert len(text.instant(noon, noon, seconds=True)) == len("12:03:59")
    assert len(text.instant(noon, noon + 3 * 86_400)) == len("2027-01-15 12:03")
    assert text.stamp(1_800_000_000.25) == "2027-01-15T08:00:00.250Z"


def test_a_table_lines_up_also_with_wide_characters() -> None:
    shown = text.table(("A", "B"), [("世界", "x"), ("ab", "y")]).splitlines()
    assert shown == ["A     B", "世界  x", "ab    y"]
    assert text.columns("e\u0301") == 1


@pytest.mark.parametrize("width", [20, 60, 80, 120])
def test_a_table_is_as_wide_as_the_terminal_and_cuts_nothing_off(width: int) -> None:
    advice = "not merged: README.md changed. Then `loopwright resume agent-T001` goes on with it."
    rows = [("agent-T001", "given up", advice), ("agent-T002", "done", "short")]
    shown = text.table(("AGENT", "STATE", "WAITING FOR"), rows, width=width).splitlines()
    assert " ".join(" ".join(shown).split()).count(advice) == 1, "whole, and in its order"
    assert max(map(text.columns, shown)) <= max(width, text.ENOUGH + text.INDENT)
    assert shown[-1].split() == ["agent-T002", "done", "short"] or width < 60


def test_what_has_no_room_beside_the_others_stands_below_them() -> None:
    rows = [("agent-T001", "x" * 20 + " end"), ("agent-T002", "y")]
    shown = text.table(("AGENT", "WAITING FOR"), rows, width=30)
    assert shown == (f"AGENT       WAITING FOR\nagent-T001\n    {'x' * 20} end\nagent-T002  y")


def test_lines_are_broken_at_blanks_and_long_words_anywhere() -> None:
    assert text.wrapped("ab cd efghijk l", 5) == ["ab cd", "efghi", "jk l"]
    assert text.wrapped("世界 世界世界", 4) == ["世界", "世界", "世界"]
    assert text.wrapped("", 5) == [""]
    assert text.cut("世界世界", 5) == "世..."


@pytest.mark.parametrize(
    ("tty", "environ", "wanted"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colours_are_only_for_terminals_that_want_them(
    monkeypatch: pytest.MonkeyPatch,
    tty: bool,  # noqa: FBT001  # a parameter of the case
    environ: dict[str, str],
    wanted: bool,  # noqa: FBT001  # as above
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: tty)
    assert text.coloured(stream, environ) is wanted
    assert ("\x1b" in text.paint("x", "red", wanted=wanted)) is wanted


def test_json_is_nothing_but_ascii() -> None:
    shown = text.to_json({"a": "\u202e\x1bü"})
    assert shown.isascii()
    assert "\x1b" not in shown
    assert json.loads(shown) == {"a": "\u202e\x1bü"}
    assert text.to_json([1, {"a": 2}], compact=True) == '[1,{"a":2}]'
