"""A second opinion by real programs: approving, rejecting, lying, hanging, writing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.machine import events as on
from lifecycle.machine.states import About, AwaitingHuman, Completed
from lifecycle.result import LoopResultType
from tests.lifecycle.attempt.reviewing import APPROVES, REJECTS, reviewer
from tests.lifecycle.world import AGENT, DONE, Step, World

if TYPE_CHECKING:
    from lifecycle.result import LoopResult

WORK: dict[int, list[Step]] = {
    0: [{"append": {"path": "x.txt", "text": "x\\n"}}, {"commit": "x"}, DONE]
}


async def reviewed(world: World, body: str, **settings: Any) -> LoopResult:
    """Run a task whose work this reviewer reads; nobody waits for people."""
    by = reviewer(world.folder, body)
    task = world.task(verify=["echo all 3 tests pass"], acceptance=["x is in x.txt"])
    told = {"review_by": by, "stay_for_people": False, "canary": "off", "baseline": False}
    return await world.run(WORK, task=task, **{**told, **settings})


async def opinions(world: World) -> list[on.ReviewFinished]:
    """Return what the reviewers came to."""
    journal = await world.store.journal(AGENT)
    return [each.event for each in journal if isinstance(each.event, on.ReviewFinished)]


async def test_a_reviewer_that_approves_lets_the_work_be_done(world: World) -> None:
    body = f"pathlib.Path({str(world.folder / 'told.md')!r}).write_text(told)\n{APPROVES}"
    result = await reviewed(world, body)
    assert result.result_type is LoopResultType.TASK_COMPLETE
    work, record = await world.work(), await world.record()
    assert isinstance(work, Completed)
    assert record.facts["opinion"] | {"at": 0, "by": ""} == {
        "by": "", "head": work.head, "attempt": 1, "at": 0, "approves": True, "summary": "fine",
        "findings": [],
    }  # fmt: skip
    told = (world.folder / "told.md").read_text()
    assert "1 +x" in told
    assert "x is in x.txt" in told
    assert "all 3 tests pass" in told
    assert work.head in told
    assert "all is done" not in told, "the author's own words are not shown"
    (spending,) = [each for each in await world.store.spendings() if each.review]
    assert (spending.attempt, spending.program) == (1, "review: command")
    assert spending.seconds > 0
    assert (await world.store.spent()).attempts == 1, "a review is no attempt"
    assert world.marked() == []


async def test_a_reviewer_that_rejects_everything_ends_with_a_person_after_its_rounds(
    world: World,
) -> None:
    result = await reviewed(world, REJECTS, review_rounds=2)
    assert result.result_type is LoopResultType.BLOCKED
    work = await world.work()
    assert isinstance(work, AwaitingHuman)
    assert work.about is About.OPINION
    assert "it is not what was asked for" in work.text
    assert (result.spawn_count, result.retry_count) == (3, 0)
    assert await world.outcomes() == ["review_findings", "review_findings", "task_complete"]
    assert "it is not what was asked for" in world.prompt(2)
    assert "did not approve it" in world.prompt(2)
    assert "<<<data" in world.prompt(2)
    assert len(await opinions(world)) == 3


async def test_a_reviewer_that_lies_about_lines_neither_approves_nor_wakes_anybody(
    world: World,
) -> None:
    lie = 'dict(severity="critical", file="y.txt", line=900, text="look there")'
    result = await reviewed(world, f'answer("findings", {lie})')
    assert result.result_type is LoopResultType.BLOCKED
    assert (result.spawn_count, result.retry_count) == (1, 0)
    told = await opinions(world)
    assert [each.opinion.findings[0].place for each in told if each.opinion] == ["missing"] * 3
    assert "do not exist" in str(result.error)


async def test_a_finding_about_a_name_that_no_file_can_have_points_at_nothing(
    world: World,
) -> None:
    lie = 'dict(severity="critical", file="x.txt" + chr(0), line=1, text="look there")'
    result = await reviewed(world, f'answer("findings", {lie})')
    assert result.result_type is LoopResultType.BLOCKED
    told = await opinions(world)
    assert [each.opinion.findings[0].place for each in told if each.opinion] == ["missing"] * 3


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("time.sleep(600)", "review_timeout"),
        ("sys.exit(3)", "exit code 3"),
        ("print('all fine, approved')", "no answer"),
        ('print(json.dumps({"review": "guessed", "verdict": "approve"}))', "no answer"),
        ("print(told)", "no answer"),
        ('answer("findings")', "names no finding"),
        ('answer("approve", dict(severity="awful", text="x"))', "does not fit the form"),
        (f"{APPROVES}; sys.exit(1)", "exit code 1"),
        (f"{REJECTS}; {APPROVES}", "named findings, and approved after that"),
        (f"{APPROVES}; sys.stdout.flush(); time.sleep(600)", "review_timeout"),
    ],
)
async def test_what_is_no_answer_is_no_approval_and_ends_with_a_person(
    world: World, body: str, why: str
) -> None:
    result = await reviewed(world, body, review_timeout=2.0 if "sleep" in body else 60.0)
    assert result.result_type is LoopResultType.BLOCKED
    assert why in str(result.error)
    assert len(await opinions(world)) == 3
    assert result.spawn_count == 1
    assert world.marked() == []


async def test_a_reviewer_can_write_nothing_of_the_repository(world: World) -> None:
    body = f"""
refused = 0
places = ["x.txt", {str(world.workspace / "x.txt")!r}, {str(world.repo / "planted.txt")!r},
          {str(world.repo / ".git" / "planted")!r}, {str(world.paths.root / "planted")!r}]
for place in places:
    try:
        pathlib.Path(place).write_text("planted")
    except OSError:
        refused += 1
answer("approve", summary=f"{{refused}} of {{len(places)}} refused")
"""
    result = await reviewed(world, body)
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert (await world.record()).facts["opinion"]["summary"] == "5 of 5 refused"
    assert not (world.repo / "planted.txt").exists()


async def test_a_reviewer_that_is_not_there_is_told_to_a_person_at_once(world: World) -> None:
    result = await reviewed(world, APPROVES, review_by="/nowhere/reviewer")
    assert result.result_type is LoopResultType.BLOCKED
    assert "/nowhere/reviewer" in str(result.error)
    (told,) = await opinions(world)
    assert told.fault is on.Fault.USER
    assert "review_by" in told.problem
