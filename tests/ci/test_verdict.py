"""The capping of foreign text, and the rule that joins checks into a verdict."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ci.events import (
    EXCERPT_LIMIT,
    Check,
    CheckState,
    CIEvent,
    CIEventType,
    ReviewComment,
    clean_tail,
)
from ci.verdict import Verdict, VerdictStatus, judge

RED = (Check(name="unit", state=CheckState.FAILED, excerpt="1 failed"),)


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\x00b\x08c\x9bd", "abcd"),
        ("left\u202eright\u200b", "leftright"),
        ("half a \ud83d pair", "half a ? pair"),
    ],
)
def test_text_from_outside_loses_its_control_characters(raw: str, clean: str) -> None:
    assert clean_tail(raw) == clean


def test_of_a_long_log_whole_lines_of_the_end_are_kept() -> None:
    cut = clean_tail("".join(f"line {number}\n" for number in range(5_000)))
    assert len(cut.encode()) <= EXCERPT_LIMIT
    first, second, *_, last = cut.splitlines()
    assert first == "[earlier output cut]"
    assert second.startswith("line ")
    assert last == "line 4999"
    assert clean_tail(cut) == cut


def test_one_endless_line_is_cut_between_characters() -> None:
    cut = clean_tail("é" * 10_000)
    assert len(cut.encode()) <= EXCERPT_LIMIT
    assert cut.endswith("éé")
    assert clean_tail(cut) == cut


def test_an_event_keeps_the_form_it_had_when_it_comes_back_from_json() -> None:
    event = CIEvent(
        type=CIEventType.BUILD_FAILURE, event_id="e", at=1.5, branch="b", excerpt="x\n" * 9_999
    )
    assert CIEvent.model_validate_json(event.model_dump_json()) == event


@pytest.mark.parametrize(
    ("passed", "pending", "failed", "status"),
    [
        ((), (), (), VerdictStatus.NONE),
        (("a",), (), (), VerdictStatus.GREEN),
        (("a",), ("b",), (), VerdictStatus.PENDING),
        (("a",), ("b",), RED, VerdictStatus.RED),
        ((), (), RED, VerdictStatus.RED),
    ],
)
def test_a_verdict_is_as_good_as_its_worst_check(
    passed: tuple[str, ...],
    pending: tuple[str, ...],
    failed: tuple[Check, ...],
    status: VerdictStatus,
) -> None:
    assert judge("f" * 40, passed=passed, pending=pending, failed=failed).status is status


def test_a_green_verdict_without_a_check_cannot_be_made() -> None:
    with pytest.raises(ValidationError, match="none, not green"):
        Verdict(status=VerdictStatus.GREEN, sha="f" * 40)


def test_what_an_earlier_version_kept_of_an_event_is_read() -> None:
    kept = {
        "type": "build_failure", "event_id": "1", "at": 1.0, "branch": "agent/a",
        "details": [{"title": "unit: 1 failed", "text": "the sum is wrong", "url": "https://x"}],
    }  # fmt: skip
    [detail] = CIEvent.model_validate(kept).details
    assert (detail.title, detail.text, detail.url) == (
        "unit: 1 failed", "the sum is wrong", "https://x",
    )  # fmt: skip


def test_checks_and_remarks_of_an_event_survive_its_being_kept() -> None:
    event = CIEvent(
        type=CIEventType.PR_CHANGES_REQUESTED, event_id="1", at=1.0, branch="agent/a",
        details=(
            Check(name="unit", state=CheckState.FAILED, summary="1 failed", ref="job:1"),
            ReviewComment(
                key="1", author="ada", trusted=True, body="no", path="a.py", line=3, at=1.0
            ),
        ),
    )  # fmt: skip
    read = CIEvent.model_validate_json(event.model_dump_json())
    assert read == event
    assert [each.title for each in read.details] == ["unit: 1 failed", "a.py:3 by ada"]
