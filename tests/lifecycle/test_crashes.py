"""A runner may die between any two of its acts: the end is the same as if it had not."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from lifecycle.machine import events as on
from lifecycle.result import LoopResultType
from tests.lifecycle.stories import AGENT, DEMO, Play, Story

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = 6
DONE = {"type": "task_complete", "summary": "done"}
STORIES = {
    "the demo": Story(DEMO),
    "agents that linger at their breakpoints": Story(
        {number: steps[:-1] for number, steps in DEMO.items()}
    ),
    "an agent that always fails": Story(
        {0: [("commit", "z.txt"), ("exit", 1)]}, settings={"max_retries": 2}
    ),
    "gates that stay red": Story(
        {0: [("commit", "z.txt"), ("say", DONE), ("exit", 0)]},
        gates={"test": 1},
        settings={"max_retries": 1},
    ),
    "files left uncommitted, then done": Story(
        {1: [("dirty", "d.txt"), ("say", DONE)], 0: [("commit", "d.txt"), ("say", DONE)]}
    ),
    "red CI unblocks too": Story(DEMO, red_builds=frozenset({1})),
    "a question that is answered": Story(
        {1: [("say", {"type": "question", "question": "Tabs or spaces?"}), ("exit", 0)],
         2: [("commit", "x.txt"), ("say", DONE), ("exit", 0)]},
        people=(("AwaitingHuman", lambda at: on.Answered(at=at, by="Ada", text="Spaces.")),),
    ),
    "accepted at the end": Story(
        {1: [("commit", "x.txt"), ("say", DONE), ("exit", 0)]},
        people=(("Completed", lambda at: on.AcceptRequested(at=at, by="Ada")),),
    ),
    "rejected at the end": Story(
        {1: [("commit", "x.txt"), ("say", DONE), ("exit", 0)]},
        people=(("Completed", lambda at: on.RejectRequested(at=at, by="Ada", why="no")),),
    ),
    "paused and resumed while blocked": Story(
        {1: [("say", {"type": "blocked", "blocked_on": ["keys"]}), ("exit", 0)],
         2: [("say", DONE), ("exit", 0)]},
        people=(("Blocked", lambda at: on.PauseRequested(at=at, by="Ada")),
                ("Suspended", lambda at: on.ResumeRequested(at=at, by="Ada")),
                ("Blocked", lambda at: on.Unblocked(at=at, by="Ada", note="there"))),
        with_ci=False,
    ),
    "rejected while the agent works": Story(
        {1: [("dirty", "x.txt")]},
        people=(("Working", lambda at: on.RejectRequested(at=at, by="Ada", why="no")),),
    ),
    "blocked until a person unblocks": Story(
        {1: [("say", {"type": "blocked", "blocked_on": ["keys"]}), ("exit", 0)],
         2: [("say", DONE), ("exit", 0)]},
        people=(("Blocked", lambda at: on.Unblocked(at=at, by="Ada", note="there")),),
        with_ci=False,
    ),
}  # fmt: skip


@pytest.fixture(autouse=True, params=["written down first", "over at once"])
def start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether each fact is committed by itself, or together with what follows at once."""
    if request.param == "written down first":
        monkeypatch.setattr("lifecycle.parts.START_WAITS", 0.0)
        monkeypatch.setattr("lifecycle.parts.END_WAITS", 0.0)
    return str(request.param)


async def _played(folder: Path, story: Story, *crashes: int, goes_on: bool = False) -> Play:
    play = await Play(story, folder).to_the_end(*crashes, goes_on=goes_on)
    await play.check()
    return play


@pytest.mark.parametrize("meanwhile", ["frozen", "going on"])
@pytest.mark.parametrize("name", [name for name in STORIES if name != "red CI unblocks too"])
async def test_a_crash_at_any_point_ends_in_the_same_record(
    tmp_path: Path, name: str, meanwhile: str
) -> None:
    """`going on`: agents and CI do all they can while no runner runs; else they stand still."""
    story = STORIES[name]
    whole = await _played(tmp_path / "whole", story)
    picture = await whole.picture()
    places = whole.lives[0].passed
    for number, place in enumerate(places, 1):
        folder = tmp_path / str(number)
        play = await _played(folder, story, number, goes_on=meanwhile == "going on")
        assert await play.picture() == picture, f"crash {number} of {len(places)}: {place}"
        assert len(play.lives) == 2


@pytest.mark.parametrize("name", STORIES)
async def test_two_crashes_in_a_row_end_in_the_same_record(tmp_path: Path, name: str) -> None:
    story = STORIES[name]
    whole = await _played(tmp_path / "whole", story)
    picture = await whole.picture()
    last = len(whole.lives[0].passed)
    chance = random.Random(name)  # noqa: S311  # the same pairs in each run
    for number in range(PAIRS):
        first, second = chance.randint(1, last), chance.randint(1, last // 2)
        goes_on = chance.random() < 0.5
        play = await _played(tmp_path / str(number), story, first, second, goes_on=goes_on)
        passed = [life.passed[-1:] for life in play.lives]
        assert await play.picture() == picture, f"crashes {first}, {second}: {passed}"


async def test_a_runner_that_dies_at_each_of_its_first_acts_is_survived(tmp_path: Path) -> None:
    story = STORIES["the demo"]
    picture = await (await _played(tmp_path / "whole", story)).picture()
    play = await _played(tmp_path / "many", story, *range(1, 60))
    assert await play.picture() == picture


async def test_the_demo_passes_each_kind_of_place(tmp_path: Path) -> None:
    play = await _played(tmp_path / "whole", STORIES["the demo"])
    places = play.lives[0].passed
    orders = ("PrepareWorkspace", "SpawnAgent", "TakeSnapshot", "PublishBranch", "LookAtBlockers",
              "OpenPullRequest", "LookAtPullRequest", "RunGates")  # fmt: skip
    assert {f"{when} {order}" for order in orders for when in ("before", "after")} <= set(places)
    assert len(places) >= 100
    assert play.result is not None
    assert play.result.result_type is LoopResultType.TASK_COMPLETE
    assert (play.result.spawn_count, play.result.retry_count) == (3, 0)


async def test_a_start_and_its_quick_end_are_committed_together(tmp_path: Path, start: str) -> None:
    play = await _played(tmp_path / "whole", STORIES["an agent that always fails"])
    apart = "before commit of AgentExited" in play.lives[0].passed
    assert apart == (start == "written down first")


async def test_an_agent_that_was_interrupted_starts_again_under_its_own_number(
    tmp_path: Path, start: str
) -> None:
    whole = await _played(tmp_path / "whole", STORIES["an agent that always fails"])
    when = "before" if start == "over at once" else "after"
    at = whole.lives[0].passed.index(f"{when} commit of AgentSpawned") + 1
    play = await _played(tmp_path / "crashed", STORIES["an agent that always fails"], at)
    attempts = [actor.attempt for actor in play.world.actors.values()]
    assert attempts == [1, 1, 2, 3]
    record = await play.store.get(AGENT)
    assert record is not None
    assert record.work is not None
    assert record.work.tally.interruptions == 1
    assert (record.work.tally.spawn_count, record.work.tally.retry_count) == (3, 2)
