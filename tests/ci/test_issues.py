"""An issue is named in a few forms; any other is refused with what to write."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ci.forge.upkeep.issue_words import closes_issue, comment_on, names_issue
from ci.issues import IssueReference, IssueStage, IssueStanding, issue_of
from lifecycle.plan import Task

PLACE = "forge.test/o/r"
HERE, THERE = IssueReference(5), IssueReference(5, "o/other")


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("12", "#12"),
        (" #12 ", "#12"),
        ("o/r#12", "#12"),
        ("O/R#12", "#12"),
        ("group/sub/r#12", "group/sub/r#12"),
        ("https://forge.test/o/r/issues/12", "#12"),
        ("https://forge.test/o/r/-/issues/12#note_7", "#12"),
        ("https://forge.test/o/r/-/work_items/12?show=1", "#12"),
        ("https://FORGE.test/o/other/issues/12/", "o/other#12"),
    ],
)
def test_each_form_names_an_issue(text: str, short: str) -> None:
    found = issue_of(text).on("https://forge.test", "o/r")
    assert found is not None
    assert found.short == short
    assert Task(id="T1", issue=text).issue == text


@pytest.mark.parametrize(
    "text",
    ["JIRA-12", "0", "#0", "r#12", "o/r", "https://forge.test/o/r/pull/12", "12 13", "ftp://x/1"],
)
def test_another_form_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValidationError, match="does not name an issue: give its number"):
        Task(id="T1", issue=text)


@pytest.mark.parametrize(
    "url",
    [
        "https://elsewhere.test/o/r/issues/1",
        "http://forge.test/o/r/issues/1",
        "https://forge.test.evil/o/r/issues/1",
    ],
)
def test_another_host_is_none_of_the_forges(url: str) -> None:
    assert issue_of(url).on("https://forge.test", "o/r") is None


@pytest.mark.parametrize(
    ("text", "which", "named", "closed"),
    [
        ("Closes #5", HERE, True, True),
        ("fixes: o/r#5.", HERE, True, True),
        ("Resolves https://forge.test/o/r/issues/5", HERE, True, True),
        ("Closed https://forge.test/o/r/-/work_items/5", HERE, True, True),
        ("See #5, and closes #6", HERE, True, False),
        ("Closes #55", HERE, False, False),
        ("Closes o/other#5", HERE, False, False),
        ("Closes o/other#5", THERE, True, True),
        ("Closes #5", THERE, False, False),
        ("a#5 #5x", HERE, True, False),
    ],
)
def test_a_text_names_or_closes_exactly_this_issue(
    text: str, which: IssueReference, *, named: bool, closed: bool
) -> None:
    assert names_issue(text, which, PLACE) is named
    assert closes_issue(text, which, PLACE) is closed


def test_a_title_calls_nobody_and_makes_no_link() -> None:
    title = "Ask @ada `now`\n<!-- x --> #7"
    standing = IssueStanding(
        key="agent-a.b1", issue="5", task_id="T1", title=title, stage=IssueStage.WORKED_ON
    )
    said = comment_on(standing, "")
    assert "(`Ask @ada 'now' <!-- x --> #7`)" in said
    assert said.endswith("<!-- loopwright:agent-a.b1 -->")
