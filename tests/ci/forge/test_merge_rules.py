"""Loopwright merges nothing that one reason speaks against, and names that reason."""

from __future__ import annotations

from typing import Any

import pytest

from ci.events import Check, CheckState
from ci.forge.merge_rules import Rules, objection
from ci.forge.protocol import ForgePull, Reviews
from ci.interface import PullRequestState
from ci.verdict import Verdict, judge

HEAD, OTHER = "a" * 40, "c" * 40
GREEN = judge(HEAD, passed=("unit",))
RED = judge(HEAD, failed=(Check(name="unit", state=CheckState.FAILED),))
PENDING = judge(HEAD, passed=("lint",), pending=("unit",))
NONE = judge(HEAD)


def against(
    *,
    verdict: Verdict = GREEN,
    reviews: Reviews | None = None,
    sha: str | None = HEAD,
    rules: dict[str, Any] | None = None,
    **pull: Any,
) -> str:
    facts: dict[str, Any] = {
        "number": 7, "url": "u", "branch": "agent/a", "base": "main", "head_sha": HEAD,
        "state": PullRequestState.OPEN, "mergeable": True, "created_at": 1.0, "updated_at": 1.0,
    }  # fmt: skip
    shown = ForgePull(**{**facts, **pull})
    return objection(shown, verdict, reviews or Reviews(), Rules(**(rules or {})), sha=sha)


def test_a_green_head_that_merges_may_be_merged() -> None:
    assert against() == ""


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"state": PullRequestState.CLOSED}, "is closed: open a new one"),
        ({"state": PullRequestState.MERGED}, "is merged"),
        ({"sha": OTHER}, f"the head of pull request 7 is {HEAD}"),
        ({"verdict": judge(OTHER, passed=("unit",))}, "the verdict is on"),
        ({"draft": True}, "is a draft"),
        ({"mergeable": False}, "conflicts with main"),
        ({"verdict": RED}, "is red, not green"),
        ({"verdict": PENDING}, "is pending, not green"),
        ({"verdict": NONE}, "is none, not green"),
        ({"reviews": Reviews(changes_wanted_by=("ada",))}, "ada asked for changes"),
        ({"rules": {"required_reviews": 1}}, "lacks 1 of 1"),
        (
            {
                "rules": {"required_reviews": 1},
                "reviews": Reviews(approved_by=("ada",), changes_wanted_by=("ada",)),
            },
            "ada asked for changes",
        ),
        ({"hindrance": "blocked"}, "the forge does not let pull request 7 be merged now: blocked"),
    ],
)
def test_one_reason_against_it_is_enough(facts: dict[str, Any], words: str) -> None:
    assert words in against(**facts)


def test_none_is_allowed_only_where_no_check_is_required() -> None:
    assert against(verdict=NONE.model_copy(update={"enough": True})) == ""


def test_what_the_forge_would_merge_all_the_same_is_no_hindrance() -> None:
    assert against(hindrance="unstable") == ""


def test_enough_approvals_let_it_pass() -> None:
    reviews = Reviews(approved_by=("ada", "bob"))
    assert against(reviews=reviews, rules={"required_reviews": 2}) == ""
