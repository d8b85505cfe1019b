"""Lines of a diff as HTML: nothing of them is taken for HTML, and nothing of them is lost."""

from __future__ import annotations

import html
import re
from time import process_time
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.web.pages.diff_html import DiffWriter

if TYPE_CHECKING:
    from orchestrator.review.work_diff import FileForm

SLOW = 0.8
"""Seconds; the lexer of that language takes longer than a second for it."""
HOSTILE = "<script>alert('1')</script> & \"x\" \u202e \x1b[31m"


def file(path: str, *lines: tuple[str, str]) -> FileForm:
    old = new = 1
    told: list[dict[str, Any]] = []
    for kind, text in lines:
        told.append({
            "kind": kind,
            "text": text,
            "old": old if kind != "+" else None,
            "new": new if kind != "-" else None,
            "parts": [],
        })  # fmt: skip
        old += kind != "+"
        new += kind != "-"
    hunk = {"old_start": 1, "new_start": 1, "heading": "<b>", "lines": told, "pairs": []}
    return cast("FileForm", {"path": path, "hunks": [hunk]})


def cells(table: str) -> list[str]:
    return [html.unescape(re.sub(r"<[^>]*>", "", each)) for each in table.split("</td>")]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("path", ["a.py", "a.unknown", "a.html", "a.md"])
def test_hostile_lines_are_only_text(path: str, *, split: bool) -> None:
    table = DiffWriter().table(
        file(path, ("-", HOSTILE), ("+", HOSTILE + "!"), (" ", HOSTILE)), 0, split=split
    )
    assert "<script" not in table
    assert "\u202e" not in table
    assert "\x1b" not in table
    assert "<b>" not in table
    assert set(re.findall(r"<(\w+)", table)) <= {
        *("table", "colgroup", "col", "tbody", "tr", "td", "span", "ins", "del"),
    }


@pytest.mark.parametrize("split", [False, True])
@given(
    lines=st.lists(
        st.tuples(st.sampled_from(" +-"), st.text(st.characters(codec="ascii"), max_size=30))
    ),
    path=st.sampled_from(["a.py", "a.js", "Makefile", "a.yaml", "a.txt"]),
)
def test_no_line_is_lost_or_changed(
    lines: list[tuple[str, str]], path: str, *, split: bool
) -> None:
    plain = [(kind, re.sub(r"[^\x20-\x7e]", "", text)) for kind, text in lines]
    shown = cells(DiffWriter().table(file(path, *plain), 0, split=split))
    for _, text in plain:
        assert text in shown


def test_what_changed_within_a_line_is_marked_in_whole_words() -> None:
    table = DiffWriter().table(
        file("a.py", ("-", "    total = price * 2"), ("+", "    total = prices * 2")),
        0,
        split=False,
    )
    assert "<del>price</del>" in table
    assert "<ins>prices</ins>" in table


def test_lines_of_another_kind_are_not_marked() -> None:
    table = DiffWriter().table(file("a.py", ("-", "import os"), ("+", "x = 12")), 0, split=False)
    assert "<ins>" not in table


def test_colours_end_where_there_is_no_time_for_more() -> None:
    writer = DiffWriter(coloured=20)
    first = writer.table(file("a.py", (" ", "return 1")), 0, split=False)
    then = writer.table(file("b.py", (" ", "return 1; return 2")), 1, split=False)
    assert '<span class="k">return</span>' in first
    assert "span" not in then


def test_each_line_of_ones_own_side_can_be_commented_on() -> None:
    told = file("a.py", ("-", "x"), ("+", "y"), (" ", "z"))
    for split in (False, True):
        table = DiffWriter(href="?c=").table(told, 3, split=split)
        assert re.findall(r'href="\?c=(\w+)#', table) == ["3o1", "3n1", "3n2"]
    below = {("a.py", "new", 2): "<p>here</p>"}
    assert (
        DiffWriter(below=below)
        .table(told, 0, split=False)
        .endswith('<tr class="cm"><td colspan="4"><p>here</p></td></tr></tbody></table>')
    )


def test_a_file_that_is_made_to_be_slow_to_colour_is_shown_plain_and_soon() -> None:
    slow = file("agent.isa", *[("+", "a" * 2000)] * 19)
    begun = process_time()
    table = DiffWriter().table(slow, 0, split=False)
    assert process_time() - begun < SLOW
    assert table.count("a" * 2000) == 19
    quick = DiffWriter().table(file("quick.py", ("+", "if x:")), 0, split=False)
    assert '<span class="k">if</span>' in quick
