"""What goes first when a page is too long, and that it is named."""

from __future__ import annotations

from typing import Any

import pytest

from templates.size_budget import LEVELS, trim

TASK = {
    "id": "T1",
    "title": "",
    "description": "",
    "acceptance": (),
    "verify": (),
    "dependencies": (),
}


LISTS = (
    "gates",
    "notes",
    "blockers",
    "flagged_files",
    "changed_files",
    "dirty_files",
    "recent_commits",
    "dependencies_done",
    "dependencies_pending",
    "guidance",
    "remarks",
    "merges",
    "between",
    "ledger",
)


def values(**given: Any) -> dict[str, Any]:
    return {
        "block_reason": "",
        **dict.fromkeys(LISTS, ()),
        "task": TASK,
        "attempt": 1,
        "last_outcome": None,
        "ci": None,
        "answer": None,
        "communications": None,
        "saved_work": None,
        "last_words": "",
        "omitted": {},
        "folded_attempts": {},
        **given,
    }


def attempts(*outcomes: str) -> list[dict[str, Any]]:
    return [
        {
            "attempt": n,
            "outcome": outcome,
            "error": "boom",
            "summary": f"words of {n}",
            "commits": 0,
            "files_changed": 0,
            "seconds": 2.0,
        }
        for n, outcome in enumerate(outcomes, 1)
    ]


def gate(command: str, **given: Any) -> dict[str, Any]:
    return {"command": command, "ok": False, "failed_before": False, "excerpt": "", **given}


def test_nothing_is_left_out_of_a_short_page() -> None:
    assert trim(values(ledger=attempts("crash"), last_words="bye"), 0)["left_out"] == []


@pytest.mark.parametrize("level", range(len(LEVELS)))
def test_each_level_names_what_it_cuts(level: int) -> None:
    shown = trim(
        values(
            attempt=99,
            changed_files=list(range(1000)),
            last_words="x" * 5000,
            ledger=attempts(*["crash"] * 99),
        ),
        level,
    )
    limits = LEVELS[level]
    assert f"{1000 - limits.files} changed files" in shown["left_out"]
    assert f"{98 - limits.attempts} older attempts" in shown["left_out"]
    assert any(named.endswith(" of last words") for named in shown["left_out"])


def test_new_failures_come_before_old_ones_and_successes() -> None:
    gates = [gate("old", failed_before=True), gate("green", ok=True), gate("new")]
    assert [g["command"] for g in trim(values(gates=gates), 0)["gates"]] == ["new", "old", "green"]


def test_the_attempt_that_just_ended_is_apart_and_the_others_are_newest_first() -> None:
    shown = trim(values(attempt=3, ledger=attempts("crash", "hang", "gate_failed")), 0)
    assert shown["latest"]["attempt"] == 3
    assert [entry["attempt"] for entry in shown["earlier"]] == [2, 1]


def test_attempts_in_a_row_that_were_alike_are_told_once() -> None:
    ledger = attempts("crash", "hang", "hang", "hang", "crash", "refused")
    for entry in ledger:
        entry["summary"] = "the same words"
    ledger[1]["seconds"] = 5.0
    shown = trim(values(attempt=6, ledger=ledger), 0)
    told = shown["alike"]
    assert [entry["attempt"] for entry in shown["earlier"]] == [5, 4, 3, 2, 1]
    assert [entry["seconds"] for entry in shown["earlier"]] == [2.0, 2.0, 2.0, 5.0, 2.0]
    assert [(e["attempt"], e["first"], e["count"], e["seconds"]) for e in told] == [
        (5, 5, 1, 2.0),
        (4, 2, 3, 9.0),
        (1, 1, 1, 2.0),
    ]


def test_what_alike_attempts_took_together_is_not_told_where_one_is_not_known() -> None:
    ledger = attempts("hang", "hang", "refused")
    for entry in ledger:
        entry["summary"] = ""
    ledger[0]["seconds"] = None
    (told,) = trim(values(attempt=3, ledger=ledger), 0)["alike"]
    assert (told["count"], told["seconds"]) == (2, None)


def test_attempts_between_which_one_is_missing_are_not_told_as_one() -> None:
    ledger = attempts("hang", "hang", "hang", "refused")
    for entry in ledger:
        entry["summary"] = ""
    del ledger[1]
    told = trim(values(attempt=4, ledger=ledger), 0)["alike"]
    assert [(entry["first"], entry["attempt"]) for entry in told] == [(3, 3), (1, 1)]


def test_attempts_that_are_not_shown_are_counted_by_their_end() -> None:
    ledger = attempts(*["crash"] * 30, *["hang"] * 20)
    shown = trim(values(attempt=50, ledger=ledger, folded_attempts={"crash": 5}), 0)
    assert shown["older"] == [("crash", 35), ("hang", 9)]
    assert "44 older attempts" in shown["left_out"]


def test_failures_of_one_kind_in_a_row_are_counted() -> None:
    assert trim(values(ledger=attempts("hang", "crash", "crash")), 0)["streak"] == 2
    assert trim(values(ledger=attempts("pr_created", "pr_created")), 0)["streak"] == 0


def test_what_the_snapshot_left_out_already_is_added() -> None:
    shown = trim(values(omitted={"commits": 7}, recent_commits=list(range(12))), 0)
    assert shown["left_out"] == ["9 commits"]


def test_trimming_changes_nothing_it_was_given() -> None:
    given = values(omitted={"commits": 7}, recent_commits=list(range(12)))
    trim(given, 2)
    assert given["omitted"] == {"commits": 7}
    assert len(given["recent_commits"]) == 12
