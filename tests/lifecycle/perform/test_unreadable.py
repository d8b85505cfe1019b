"""A workspace that git cannot read: its work is saved, it is made again, and the loop continues."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lifecycle.machine.events import GatesFinished, SnapshotFailed, SnapshotTaken
from lifecycle.machine.states import Capturing, Completed
from lifecycle.result import LoopResultType
from runtime.errors import RuntimeFault
from runtime.workspaces.worktrees_dir import default_worktrees_dir
from tests.lifecycle.world import AGENT, DONE, PATIENCE, ROOT, Step, World, commit, until
from tests.tools.machine import gives

if TYPE_CHECKING:
    from lifecycle.result import LoopResult

FAILED: Step = {"exit": 1}
WORK = "nobody else has this\n"
OTHER = "agent-T002"

NAMES = """
d="$(git rev-parse --git-dir)" c="$(git rev-parse --git-common-dir)"
loose() { o=$(git rev-parse "$1"); echo "$c/objects/$(echo $o | cut -c1-2)/$(echo $o | cut -c3-)"; }
broken() { f=$(loose "$1"); chmod u+w "$f"; echo garbage > "$f"; }
"""
SPOILED = {
    "the index is empty": ': > "$d/index"',
    "the index is garbage": 'echo garbage > "$d/index"',
    "the index is a pipe": 'rm "$d/index"; mkfifo "$d/index"',
    "the index is a folder": 'rm "$d/index"; mkdir "$d/index"',
    "the index is gone": 'rm "$d/index"',
    "HEAD is garbage": 'echo garbage > "$d/HEAD"',
    "HEAD is empty": ': > "$d/HEAD"',
    "HEAD is no commit": 'git rev-parse HEAD | tr a-f0-9 b-f0-9a > "$d/HEAD"',
    "HEAD is a pipe": 'rm "$d/HEAD"; mkfifo "$d/HEAD"',
    "an encoding": "echo '*.txt working-tree-encoding=UTF-16' > .gitattributes; echo x > a.txt",
    "attributes are a pipe": "mkfifo .gitattributes",
    "ignore rules are a pipe": "mkfifo .gitignore",
    "ignore rules are a socket": "python3 -c 'import socket as s; "
    's.socket(s.AF_UNIX).bind(".gitignore")\'',
    "pipes further down": "mkdir sub; mkfifo sub/.gitignore sub/.gitattributes; echo x > sub/x",
    "the pointer is garbage": "echo garbage > .git",
    "the pointer is gone": "rm .git",
    "the registration is gone": 'rm -r "$d"',
    "the commit is gone": 'rm -f "$(loose HEAD)"',
    "the tree is gone": 'rm -f "$(loose HEAD^{tree})"',
    "a file's content is gone": 'rm -f "$(loose HEAD:x.txt)"',
    "the commit is garbage": "broken HEAD",
    "the tree is garbage": "broken HEAD^{tree}",
    "a file's content is garbage": "broken HEAD:x.txt",
    "the branch is garbage": 'echo garbage > "$c/refs/heads/agent/agent-T001"',
    "the branch is a pipe": 'b="$c/refs/heads/agent/agent-T001"; rm "$b"; mkfifo "$b"',
    "the folder is a link": 'p="$PWD"; mv "$p" "$p.moved"; ln -s "$p.moved" "$p"',
}


def shell(line: str) -> Step:
    """Let the agent run a line of shell."""
    return {"run": {"argv": ["sh", "-c", NAMES + line]}}


async def both(world: World, attempts: dict[int, list[Step]]) -> list[LoopResult]:
    """Run it, and another task that needs the only place meanwhile."""
    world.settings.update(max_live_agents=1)
    loop = world.loop()
    other = world.agent([*commit("other.txt"), DONE], OTHER)
    runs = [
        loop.run_agent_loop(world.agent(attempts), world.task()),
        loop.run_agent_loop(other, world.task("T002")),
    ]
    return await asyncio.wait_for(asyncio.gather(*runs), PATIENCE)


def all_saved(world: World) -> str:
    """Return all files under all saved refs."""
    refs = world.git("for-each-ref", "--format=%(refname)", "refs/loopwright/saved").split()
    return "\n".join(
        world.git("show", f"{ref}:{name}")
        for ref in refs
        for name in world.git("ls-tree", "-r", "--name-only", ref).splitlines()
    )


@pytest.mark.parametrize("how", SPOILED)
async def test_work_is_saved_from_a_workspace_that_git_cannot_read_and_the_loop_goes_on(
    world: World, how: str
) -> None:
    attempts = {
        1: [*commit("x.txt", "one"), {"write": {"path": "wip.txt", "text": WORK}},
            shell(SPOILED[how]), FAILED],
        2: [*commit("y.txt", "two"), DONE],
    }  # fmt: skip
    if "pipe" in how:  # on which git waits: no other may wait meanwhile
        results = await both(world, attempts)
    else:
        results = [await world.run(attempts)]
    assert {each.result_type for each in results} == {LoopResultType.TASK_COMPLETE}
    assert WORK.strip() in all_saved(world) or world.git("show", f"agent/{AGENT}:wip.txt") == WORK
    assert isinstance(await world.work(), Completed)
    assert world.git("show", f"agent/{AGENT}:y.txt") == "two"
    assert "refs/loopwright/saved" in world.prompt(2)


IN_A_BOX = (
    "the index is garbage", "HEAD is garbage", "an encoding", "ignore rules are a pipe",
    "the branch is garbage", "the pointer is gone",
)  # fmt: skip


@pytest.mark.parametrize("how", IN_A_BOX)
async def test_the_same_holds_for_what_an_agent_in_a_sandbox_leaves(world: World, how: str) -> None:
    attempts = {
        1: [*commit("x.txt", "one"), {"write": {"path": "wip.txt", "text": WORK}},
            shell(SPOILED[how]), FAILED],
        2: [*commit("y.txt", "two"), DONE],
    }  # fmt: skip
    agent = world.agent(attempts)
    script = agent.command[-1]
    world.settings.update(isolation="container", sandbox_readable=(script, str(ROOT)))
    if not gives(isolation="container"):
        return
    async with world.running({}, agent=agent) as running:
        assert (await running.result()).result_type is LoopResultType.TASK_COMPLETE
    assert WORK.strip() in all_saved(world) or world.git("show", f"agent/{AGENT}:wip.txt") == WORK


UNSAVABLE = "git update-ref refs/loopwright/saved/agent-T001 HEAD"
"""A ref in the place of the folder that the refs of saved work are in."""


async def test_while_work_cannot_be_saved_its_place_is_free_for_others(world: World) -> None:
    attempts = {
        1: [{"write": {"path": "wip.txt", "text": WORK}}, shell(UNSAVABLE), FAILED],
        2: [*commit("y.txt", "two"), DONE],
    }
    world.settings.update(max_live_agents=1, max_environment_failures=1000)
    async with world.running(attempts) as running:
        await until(lambda: any(isinstance(each.fact, SnapshotFailed) for each in world.news))
        other = world.agent([*commit("other.txt"), DONE], OTHER)
        result = await asyncio.wait_for(
            running.loop.run_agent_loop(other, world.task("T002")), PATIENCE
        )
        assert result.result_type is LoopResultType.TASK_COMPLETE
        assert isinstance(await world.work(), Capturing)
        world.git("update-ref", "-d", f"refs/loopwright/saved/{AGENT}")
        assert (await running.result()).result_type is LoopResultType.TASK_COMPLETE
    assert world.saved(1)["wip.txt"] == WORK.strip()


async def test_gates_that_cannot_be_run_hold_no_place_until_they_are_tried_again(
    world: World,
) -> None:
    checkouts = default_worktrees_dir(world.repo) / ".judging"
    attempts: dict[int, list[Step]] = {
        1: [*commit("x.txt"), shell(f"rm -rf {checkouts}; touch {checkouts}"), DONE]
    }
    world.settings.update(max_live_agents=1, max_environment_failures=1000, baseline=False)
    task = world.task(verify=["true"])
    async with world.running(attempts, task=task) as running:
        await until(
            lambda: any(isinstance(e.fact, GatesFinished) and e.fact.problem for e in world.news)
        )
        other = world.agent([*commit("other.txt"), DONE], OTHER)
        result = await asyncio.wait_for(
            running.loop.run_agent_loop(other, world.task("T002")), PATIENCE
        )
        assert result.result_type is LoopResultType.TASK_COMPLETE
        checkouts.unlink()
        assert (await running.result()).result_type is LoopResultType.TASK_COMPLETE


async def test_a_file_of_the_commit_that_grew_beyond_the_limit_is_kept_apart(world: World) -> None:
    attempts: dict[int, list[Step]] = {
        1: [{"write": {"path": "wip.txt", "text": WORK}}, shell("truncate -s 5G a.txt"), FAILED],
        2: [*commit("y.txt", "two"), DONE],
    }
    result = await world.run(attempts)
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert world.saved(1) == {"wip.txt": WORK.strip()}
    apart = world.workspace.parent / ".left" / f"{AGENT}-1"
    assert (apart / "a.txt").stat().st_size == 5 << 30
    assert f"what could not be saved is in {apart}" in world.prompt(2)
    assert "a.txt (5.0 GiB)" in world.prompt(2)
    assert (world.workspace / "a.txt").read_text() == "a\n"


async def test_a_file_beyond_the_limit_is_named_and_its_workspace_kept(world: World) -> None:
    attempts = {
        1: [{"write": {"path": "wip.txt", "text": WORK}},
            shell("truncate -s 500G disk.img"), FAILED],
        2: [DONE],
    }  # fmt: skip
    result = await world.run(attempts, max_retries=2)  # to read all of it takes far longer
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert world.saved(1) == {"wip.txt": WORK.strip()}
    taken = next(e.event for e in await world.journal() if isinstance(e.event, SnapshotTaken))
    assert "disk.img (500.0 GiB)" in taken.notes[0]
    assert "disk.img (500.0 GiB)" in world.prompt(2)
    async with world.loop().opened() as engine:
        with pytest.raises(RuntimeFault, match=r"disk\.img.*beyond save_limit_mb"):
            await engine.cleanup_agent(AGENT)
        assert (world.workspace / "disk.img").exists()
        (world.workspace / "disk.img").unlink()
        await engine.cleanup_agent(AGENT)
    assert not world.workspace.exists()
