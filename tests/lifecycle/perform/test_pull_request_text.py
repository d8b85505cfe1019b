"""What a pull request says comes from the task, the agent and a template."""

from __future__ import annotations

import pytest

from lifecycle.perform.pull_request_text import body_of, title_of
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


def test_an_issue_that_the_agent_names_is_not_named_twice() -> None:
    task = Task(id="T1", issue="12")
    assert body_of(task, "Done, closes #12.") == "Done, closes #12."


def test_the_agent_gives_the_forge_no_commands_and_the_template_may() -> None:
    task = Task(id="T1", title="Add")
    said = "Adds it to /usr.\n/merge\n  /approve"
    tame = "Adds it to /usr.\n\\/merge\n  \\/approve"
    assert body_of(task, said) == tame
    assert body_of(task, said, "{summary}\n\n/label ~agent") == f"{tame}\n\n/label ~agent"
