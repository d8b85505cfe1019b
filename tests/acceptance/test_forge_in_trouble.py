"""A real loop on a forge that is down, refuses, hangs or talks nonsense waits, and says so.

Time goes round faster here: what would take a minute takes a fraction of a second.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ci.forge.merge_rules import Rules
from lifecycle.loop import LoopResultType
from lifecycle.paths import Paths
from lifecycle.settings import Settings
from tests.acceptance.forge_life import FASTER, Life, queue_ends
from tests.ci.forge_server import Reply, fails, hangs, text
from tests.ci.gitea.gitea_world import GiteaWorld
from tests.ci.github.queue_world import QueueWorld
from tests.ci.gitlab.served_trains import TrainWorld
from tests.ci.ports import git
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


def refuse_pushes(served: GiteaWorld, why: str) -> Path:
    hook = served.origin.bare / "hooks" / "pre-receive"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\necho '{why}' >&2\nexit 1\n")
    hook.chmod(0o755)
    return hook


async def test_why_a_branch_is_refused_is_told_whole_while_there_is_no_pull_request(
    tmp_path: Path,
) -> None:
    rule = f"the branch {'must be named as the handbook says, ' * 12}ask dora"
    async with GiteaWorld.running(tmp_path / "served") as served:
        hook = refuse_pushes(served, rule)
        life = Life(served, tmp_path)
        run = asyncio.create_task(life.loop.run_agent_loop(life.agent, life.task))
        try:
            said = await life.until_it_says(rule)
            assert "there is none yet" in said
            assert "tried again every" in said
            hook.unlink()
            await life.until_it_says("is open; ")
            await served.merge(await life.pull_number())
            result = await asyncio.wait_for(run, 40)
        finally:
            await life.loop.shutdown()
            await asyncio.gather(run, return_exceptions=True)
    assert result.result_type is LoopResultType.TASK_COMPLETE


async def test_a_push_that_is_refused_is_not_told_as_a_forge_that_cannot_be_asked(
    tmp_path: Path,
) -> None:
    blocked = {"type": "blocked", "blocked_on": "ci", "reason": "the build has to say"}
    begin = [{"write": {"path": "calc.py", "text": "x = 1\n"}}, {"commit": "Begin"}]
    script = {"attempts": {"default": [*begin, {"breakpoint": blocked}]}}
    async with GiteaWorld.running(tmp_path / "served") as served:
        refuse_pushes(served, "ask dora")
        life = Life(served, tmp_path, script=script)
        run = asyncio.create_task(life.loop.run_agent_loop(life.agent, life.task))
        try:
            said = await life.until_it_says("ask dora")
        finally:
            await life.loop.shutdown()
            await asyncio.gather(run, return_exceptions=True)
    assert "agent/agent-T001 could not be pushed to " in said
    assert "tried again soon" in said
    assert "cannot be asked" not in said


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (fails(503, retry_after="30"), "503"),
        (fails(401), "401"),
        (fails(429, retry_after="60"), "limit"),
        (hangs(), "answer"),
        (text("<html>sign in", kind="text/html"), "JSON"),
    ],
    ids=["503", "401", "429", "hang", "garbage"],
)
async def test_a_forge_in_trouble_is_waited_for_and_named_and_the_loop_goes_on_by_itself(
    tmp_path: Path, reply: Reply, words: str
) -> None:
    async with GiteaWorld.running(tmp_path / "served") as served:
        life = Life(served, tmp_path)
        run = asyncio.create_task(life.loop.run_agent_loop(life.agent, life.task))
        try:
            await life.until_it_says("is open; ")
            number = await life.pull_number()
            heal = served.server.overlay()
            served.server.route("GET", "/api/v1/repos/{owner}/{name}/pulls", reply)
            served.server.route("GET", "/api/v1/repos/{owner}/{name}/pulls/{number}", reply)
            said = await life.until_it_says("the forge cannot be asked")
            assert words in said
            assert "tried again" in said
            assert not run.done()
            # It is merged while nobody could be asked; no webhook tells of it.
            await served.merge(number)
            heal()
            result = await asyncio.wait_for(run, 40)
        finally:
            await life.loop.shutdown()
            await asyncio.gather(run, return_exceptions=True)
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert (result.spawn_count, result.retry_count) == (2, 0)
    assert git(served.origin.repo, "show", "main:calc.py")[1] == b"x = 1\n"


async def test_a_push_of_45_seconds_ends_in_one_pull_request(tmp_path: Path) -> None:
    async with GiteaWorld.running(tmp_path / "served") as served:
        hook = served.origin.bare / "hooks" / "pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\nsleep {45 / FASTER}\n")
        hook.chmod(0o755)
        served.served.while_creating = lambda: asyncio.sleep(3 / FASTER)
        life = Life(served, tmp_path, Settings(pr_merge_timeout=86_400.0))
        run = asyncio.create_task(life.loop.run_agent_loop(life.agent, life.task))
        try:
            await life.until_it_says("is open; ")
            await served.merge(await life.pull_number())
            result = await asyncio.wait_for(run, 40)
        finally:
            await life.loop.shutdown()
            await asyncio.gather(run, return_exceptions=True)
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert list(served.served.pulls) == [1]
    assert served.server.count("POST", served.pulls) == 1


@pytest.mark.parametrize(
    ("world", "why"),
    [
        (QueueWorld, "merge queue of main (failed_checks)"),
        (TrainWorld, "merge train of main (the pipeline did not succeed)"),
    ],
    ids=["github", "gitlab"],
)
async def test_what_a_merge_queue_throws_out_is_mended_and_merged_by_it(
    tmp_path: Path, world: type[QueueWorld | TrainWorld], why: str
) -> None:
    asks = {"breakpoint": {"type": "pr_created", "summary": "Please merge"}}
    script = {
        "attempts": {
            "1": [{"write": {"path": "calc.py", "text": "x = 1\n"}}, {"commit": "Begin"}, asks],
            "2": [{"write": {"path": "calc.py", "text": "x = 2\n"}}, {"commit": "Mend"}, asks],
            "default": [{"breakpoint": {"type": "task_complete", "summary": "All is merged"}}],
        }
    }
    rules = Rules(auto_merge=True, checks_grace=1)
    async with world.running(tmp_path / "served") as served:
        life = Life(served, tmp_path, script=script, rules=rules)
        run = asyncio.create_task(life.loop.run_agent_loop(life.agent, life.task))
        try:
            await until(lambda: queue_ends(served, red="x = 1"))
            await until(lambda: queue_ends(served, red="x = 1"))
            result = await asyncio.wait_for(run, 40)
        finally:
            await life.loop.shutdown()
            await asyncio.gather(run, return_exceptions=True)
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 3)
    first, second = served.served.entries
    assert first != second
    told = Paths.of(served.origin.repo).prompt("agent-T001", 2).read_text()
    assert f"thrown out of the {why}" in told
    assert "the sum is wrong" in told
    assert git(served.origin.repo, "show", "main:calc.py")[1] == b"x = 2\n"
