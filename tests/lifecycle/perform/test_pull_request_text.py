"""What a pull request says comes from the task, the agent and a template."""

from __future__ import annotations

import pytest

from lifecycle.perform.pull_request_text import body_of, review_text, title_of
from lifecycle.plan import Task


@pytest.mark.parametrize(
    ("task", "summary", "title"),
    [
        (Task(id="T1", title="Add a button"), "I did", "Add a button"),
        (Task(id="T1"), "I did it\nand more", "I did it"),
        (Task(id="T1"), "", "T1"),
    ],
)
def test_the_title_is_that_of_the_task_else_the_agents_first_line(
    task: Task, summary: str, title: str
) -> None:
    assert title_of(task, summary) == title


@pytest.mark.parametrize(
    ("issue", "template", "body"),
    [
        ("", "", "Done."),
        ("12", "", "Done.\n\nCloses #12"),
        ("#12", "", "Done.\n\nCloses #12"),
        ("https://forge.test/o/r/issues/3", "", "Done.\n\nCloses https://forge.test/o/r/issues/3"),
        ("12", "## What\n{summary}\n## Issue\n{issue}", "## What\nDone.\n## Issue\nCloses #12"),
        ("", "- [ ] tested ({task}: {title})", "Done.\n\n- [ ] tested (T1: Do)"),
        ("", "{unknown} {summary}", "{unknown} Done."),
    ],
)
def test_the_body_is_the_summary_in_its_template_and_names_the_issue(
    issue: str, template: str, body: str
) -> None:
    task = Task(id="T1", title="Do", issue=issue)
    assert body_of(task, "Done.", template) == body


SAID = {
    "by": "codex", "head": "c0ffee00" * 5, "approves": True, "summary": "Fine, @ada.",
    "findings": [
        {"severity": "minor", "text": "ask\n@bea", "file": "a.py", "line": 3, "place": "outside"}
    ],
}  # fmt: skip


def test_what_a_reviewer_said_of_this_commit_stands_in_it_and_orders_nothing() -> None:
    review = review_text({"opinion": SAID}, str(SAID["head"]))
    assert review.splitlines() == [
        "Second opinion: codex approved c0ffee00c0ff. Fine, @\u200bada.",
        "- minor, a.py:3 (not in the diff): ask @\u200bbea",
    ]
    task = Task(id="T1", title="Do", issue="12")
    assert body_of(task, "Done.", review="fine\n/merge") == "Done.\n\nfine\n\\/merge\n\nCloses #12"


def test_what_was_said_of_another_commit_does_not() -> None:
    assert review_text({"opinion": SAID}, "other") == review_text({}, "c0ffee") == ""


def test_an_issue_that_the_agent_names_is_not_named_twice() -> None:
    task = Task(id="T1", issue="12")
    assert body_of(task, "Done, closes #12.") == "Done, closes #12."


def test_the_agent_gives_the_forge_no_commands_and_the_template_may() -> None:
    task = Task(id="T1", title="Add")
    said = "Adds it to /usr.\n/merge\n  /approve"
    tame = "Adds it to /usr.\n\\/merge\n  \\/approve"
    assert body_of(task, said) == tame
    assert body_of(task, said, "{summary}\n\n/label ~agent") == f"{tame}\n\n/label ~agent"
