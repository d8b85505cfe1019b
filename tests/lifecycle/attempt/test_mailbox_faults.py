"""Every way to write a breakpoint wrong: no loop ends, starts, hangs or fails because of one."""

from __future__ import annotations

import pytest

from lifecycle.machine.events import MailboxInvalid
from lifecycle.result import LoopResultType
from tests.lifecycle.world import AGENT, DONE, HANG, Step, World, commit, until

WORD = {"type": "task_complete", "summary": "by a broken mailbox"}
INVALID = {
    "torn": "communications.json",
    "invalid": "communications.json",
    "binary": "communications.json",
    "deep": "nest",
    "huge": "too large",
    "fifo": "regular file",
    "symlink": "symbolic link",
}


async def _problems(world: World) -> list[str]:
    return [
        entry.event.problem
        for entry in await world.journal()
        if isinstance(entry.event, MailboxInvalid)
    ]


def _faulty(how: str) -> list[Step]:
    return [*commit("x.txt"), {"breakpoint": {**WORD, "how": how}}]


@pytest.mark.parametrize("how", ["rename", "whole", "halves", "in_place"])
async def test_a_word_counts_in_whatever_way_it_is_written(world: World, how: str) -> None:
    result = await world.run([*_faulty(how), HANG])
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert result.summary == WORD["summary"]
    assert await _problems(world) == []


@pytest.mark.parametrize("how", INVALID)
async def test_a_broken_mailbox_is_no_word_and_its_reason_is_told(world: World, how: str) -> None:
    result = await world.run({1: _faulty(how), 2: [DONE]})
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)
    assert (result.retry_count, result.summary) == (1, "all is done")
    first, _ = await world.attempts()
    assert first.outcome == "invalid_breakpoint"
    assert "invalid communications.json" in first.error
    assert INVALID[how] in first.error
    assert "invalid communications.json" in world.prompt(2)
    if how == "torn":  # what could not be read is set aside, not lost
        assert (world.workspace / "communications.json.broken-1").exists()
    if how == "symlink":  # its target is neither read nor written
        target = world.workspace / "communications.json.elsewhere"
        assert "by a broken mailbox" in target.read_text()


@pytest.mark.parametrize("how", ["torn", "fifo"])
async def test_a_mailbox_that_stays_broken_neither_ends_nor_starts_an_agent(
    world: World, how: str
) -> None:
    go = world.folder / "go"
    steps = [*_faulty(how), {"wait_file": str(go)}, {"delete": "communications.json"}, DONE]
    async with world.running(steps) as running:
        await until(lambda: any(news.event == "MailboxInvalid" for news in world.news))
        assert len(world.marked()) == 1
        go.touch()
        result = await running.result()
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert INVALID[how] in (await _problems(world))[0]


@pytest.mark.parametrize(
    "wrong",
    [{"spawn_id": "agent-T001.another.1"}, {"task_id": "T999"}, {"agent_id": "agent-T002"}],
    ids=["stale", "foreign task", "foreign agent"],
)
async def test_a_word_of_another_attempt_task_or_agent_never_counts(
    world: World, wrong: dict[str, str]
) -> None:
    result = await world.run({1: [*commit("x.txt"), {"breakpoint": {**WORD, **wrong}}], 2: [DONE]})
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)
    assert (result.retry_count, result.summary) == (1, "all is done")


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ({"type": "finished"}, "type"),
        ({"type": "blocked"}, "blocked"),
        ({"type": "question"}, "question"),
        ({"type": "task_complete", "lifecycle_state": "blocked"}, "lifecycle_state"),
    ],
    ids=["no such type", "blocked on nothing", "no question", "state of another type"],
)
async def test_a_word_that_makes_no_sense_costs_a_retry_and_is_explained(
    world: World, word: dict[str, str], told: str
) -> None:
    result = await world.run({1: [*commit("x.txt"), {"breakpoint": word}], 2: [DONE]})
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    first, _ = await world.attempts()
    assert first.outcome == "invalid_breakpoint"
    assert told in first.error
    assert told in world.prompt(2)


async def test_a_broken_shared_mailbox_of_one_agent_does_not_stop_the_others(
    world: World,
) -> None:
    loop = world.loop(comm_file=world.repo / "communications.json")
    torn = await loop.run_agent_loop(world.agent({1: _faulty("torn"), 2: [DONE]}), world.task())
    other = await loop.run_agent_loop(
        world.agent([*commit("y.txt"), DONE], "agent-T002"), world.task("T002")
    )
    assert torn.result_type is other.result_type is LoopResultType.TASK_COMPLETE
    assert (torn.spawn_count, other.spawn_count) == (2, 1)


async def test_other_agents_words_are_kept_in_a_shared_mailbox(world: World) -> None:
    shared = world.repo / "communications.json"
    shared.write_text('{"_meta": {"version": 2}, "agent-X": {"working_on": "the sky"}}')
    loop = world.loop(comm_file=shared)
    await loop.run_agent_loop(world.agent([*commit("x.txt"), DONE]), world.task())
    text = shared.read_text()
    assert '"version": 2' in text
    assert "the sky" in text
    assert AGENT in text
