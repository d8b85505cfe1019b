"""What the next attempt is told of each thing that the one before it was blocked on."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.context.block_history import BlockStory
from lifecycle.machine import events as on
from lifecycle.machine.states import Signal


def block(*names: str, tasks: tuple[str, ...] = ("T000",), reason: str = "for now") -> BlockStory:
    """Return the story of an attempt that was blocked on these."""
    story = BlockStory()
    story.begins(Signal(type="blocked", blocked_on=names, reason=reason), 5.0, 3)
    known = tuple(name.removeprefix("agent-") for name in names)
    mine = tuple(name for name in known if name in tasks)
    story.captured(
        on.SnapshotTaken(at=6.0, attempt=3, head="h1", tree="t", blocked_on=known, tasks=mine)
    )
    return story


def told(story: BlockStory, *completed: str) -> dict[str, str]:
    """Return what is told of each thing, in words; "" of what it still waits for."""
    blockers = story.blockers(completed)
    assert all(each.cleared is bool(each.how) for each in blockers)
    assert story.is_over is all(each.cleared for each in blockers)
    return {each.what: each.how for each in blockers}


def ci(kind: str = "build_success", **more: Any) -> on.CiReported:
    return on.CiReported(at=9.0, type=kind, green="success" in kind, **more)


def looked(**found: Any) -> on.BlockersLooked:
    return on.BlockersLooked(at=9.0, **found)


def test_nothing_is_told_where_nothing_was_waited_for() -> None:
    assert BlockStory().blockers(()) == []
    assert not BlockStory().is_over


def test_a_task_is_told_under_its_id_when_it_completed_and_when_it_is_merged() -> None:
    story = block("agent-T000", "a key")
    assert told(story) == {"T000": "", "a key": ""}
    story.looked(looked(done=("T000",)))
    assert told(story, "T000") == {"T000": "task T000 completed", "a key": ""}
    story.joined(on.WorkJoined(at=9.0, attempt=4, tasks=("T000",)))
    merged = "task T000 completed and its work is merged into your branch"
    assert told(story, "T000") == {"T000": merged, "a key": ""}
    story.joined(on.WorkJoined(at=9.0, attempt=4, apart=("T000",)))
    assert "still to be merged" in told(story, "T000")["T000"]
    assert (story.reason, story.attempt) == ("for now", 3)


def test_a_name_becomes_a_task_when_it_is_found_to_be_one() -> None:
    for fact in (on.DependencySettled(at=7.0, task_id="T009", done=False), looked(tasks=("T009",))):
        story = block("T009")
        if isinstance(fact, on.DependencySettled):
            story.settled(fact)
        else:
            story.looked(fact)
        story.reported(ci(sha="h2"))
        assert told(story) == {"T009": ""}, "no report of CI clears a task"


@pytest.mark.parametrize("name", ["a key", "CI", ""])
def test_a_report_of_ci_is_told_with_its_commit_and_the_first_one_counts(name: str) -> None:
    story = block(*filter(None, (name,)))
    story.reported(ci("build_failure", sha="c0ffee" * 5, text="1 failed"))
    story.reported(ci(sha="h3"))
    assert list(told(story).values()) == ["CI is red (build_failure) for c0ffeec0ffee: 1 failed"]


def test_the_build_of_its_own_commit_is_told_to_who_waits_for_ci_only() -> None:
    story = block("CI", "a key")
    story.reported(ci(sha="h1"))
    assert told(story) == {"CI": "CI is green (build_success) for h1", "a key": ""}
    story.reported(ci(sha="h0", earlier=True))
    assert told(story)["a key"] == ""
    story.reported(ci(sha="h1", handed=True))
    assert told(story)["a key"] == "an event was handed in: build_success for h1"


def test_a_verdict_that_came_meanwhile_is_told_and_one_that_was_there_before_is_not() -> None:
    for before, how in (("pending", "CI is green for h1: 7 passed"), ("red", "")):
        story = block("CI", "a key")
        story.looked(looked(ci=before))
        story.looked(looked(ci=""))
        story.looked(looked(ci="green", text="7 passed"))
        assert told(story) == {"CI": how, "a key": ""}


def test_a_person_clears_all_of_it_and_what_is_not_complete_is_said() -> None:
    story = block("T000", "a key")
    story.let_go("ada", "unblocked it", "go on")
    said = "ada unblocked it: go on"
    assert told(story) == {"T000": f"{said}; task T000 is not complete", "a key": said}
    story.looked(looked(done=("T000",)))
    assert told(story, "T000") == {"T000": said, "a key": said}
    story.joined(on.WorkJoined(at=9.0, attempt=4, tasks=("T000",)))
    assert told(story)["T000"].endswith("is merged into your branch")
    nameless = block(reason="no key")
    nameless.let_go("", "answered", "")
    assert told(nameless) == {"no key": "a person answered"}
