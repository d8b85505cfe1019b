"""What came from a list is ticked there when it is accepted, and no merge is refused for that."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from orchestrator.tasks.ticked_files import TickedFiles
from runtime.remote.local_branches import LocalBranches
from tests.orchestrator.loopkit import DONE, SETTINGS, until
from tests.orchestrator.tasks.test_lists import PRD

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.loopkit import World

WRITE = [{"run": ["sh", "-c", "echo x > $LOOPWRIGHT_TASK_ID"]}, {"commit": "work"}]
TICK_ITSELF = {
    "run": ["sh", "-c", "[ $LOOPWRIGHT_TASK_ID = US-001 ] || sed -i 's/. . a b/[x] a b/' PRD.md"]
}
"""The agent of the second task ticks its own box, as agents do."""


def listed(
    world: World, script: object, text: str = PRD, name: str = "PRD.md", more: str = ""
) -> Path:
    """Commit a list of tasks, and have an agent for all of them."""
    agent = world.script("agent", script)
    world.settings(f"{SETTINGS}{more}command = {json.dumps(agent.split())}\n")
    (world.repo / name).write_text(text)
    world.git("add", "-A")
    world.git("commit", "-qm", "A list")
    return world.repo / name


def test_an_accept_ticks_and_names_it(world: World) -> None:
    prd = listed(world, [*WRITE, DONE])
    world.call("up", "PRD.md", "--no-server")
    assert prd.read_text() == PRD, "done is not accepted"
    done = world.call("accept", "US-001")
    assert "ticked US-001 in PRD.md, line 8 (not committed)" in done.stdout
    ticked = PRD.replace("- [ ] the column is there", "- [x] the column is there")
    assert prd.read_text() == ticked
    assert world.git("status", "--porcelain") == "M PRD.md"
    # A tick is nothing that refuses the next accept.
    second = world.json("accept", "US-002")
    assert second["ticked"] == "ticked US-002 in PRD.md, line 15 (not committed)"
    assert prd.read_text() == ticked.replace("- [ ] a badge", "- [x] a badge")
    assert "already accepted" in world.call("accept", "US-002").stdout
    over = world.call("up", "PRD.md", "--no-server")
    assert "PRD.md: checklist, 0 tasks to do, 3 done and left out" in over.stderr


def test_a_live_runner_ticks(world: World) -> None:
    stories = {"userStories": [{"id": "US-1", "title": "t", "passes": False}]}
    prd = listed(world, [*WRITE, DONE], json.dumps(stories, indent=4), "prd.json")
    world.call("up", "prd.json", "--no-server")
    with world.live("serve", "--port", "0") as runner:
        until(lambda: "http://" in runner.out, lambda: f"it serves: {runner.err}")
        assert "ticked US-1 in prd.json, line 3" in world.call("accept", "US-1").stdout
        runner.says("agent-US-1: ticked US-1 in prd.json")
    assert json.loads(prd.read_text())["userStories"][0]["passes"] is True
    assert prd.read_text() == json.dumps(stories, indent=4).replace("false", "true")


def test_a_merge_that_changes_the_list_keeps_the_ticks(world: World) -> None:
    prd = listed(world, [TICK_ITSELF, *WRITE, DONE])
    world.call("up", "PRD.md", "--no-server")
    world.call("accept", "US-001")
    world.call("accept", "US-002")
    assert "[x] a badge" in world.git("show", "HEAD:PRD.md")
    assert prd.read_text() == PRD.replace("[ ]", "[x]")
    assert world.git("diff", "--numstat") == "1\t1\tPRD.md"


def test_what_a_person_wrote_in_the_list_still_refuses_a_merge_that_changes_it(
    world: World,
) -> None:
    prd = listed(world, [TICK_ITSELF, *WRITE, DONE])
    world.call("up", "PRD.md", "--no-server")
    world.call("accept", "US-001")
    mine = prd.read_text().replace("Priorities", "Mine")
    prd.write_text(mine)
    refused = world.call("accept", "US-002", code=3)
    assert "would be overwritten: PRD.md" in refused.stdout
    assert prd.read_text() == mine


def test_a_tick_is_made_by_the_next_run_where_it_could_not_be_before(world: World) -> None:
    prd = listed(world, [*WRITE, DONE])
    world.call("up", "PRD.md", "--no-server")
    world.settings(f"tick_tasks = false\n{(world.repo / 'loopwright.toml').read_text()}")
    assert "ticked" not in world.call("accept", "US-001").stdout
    assert prd.read_text() == PRD
    world.git("checkout", "-q", "loopwright.toml")
    done = world.call("up", "PRD.md", "--no-server")
    assert "agent-US-001: ticked US-001 in PRD.md, line 8" in done.stderr
    # Whoever takes it out again is not told better.
    world.git("checkout", "-q", "PRD.md")
    world.call("up", "PRD.md", "--no-server")
    assert prd.read_text() == PRD


@pytest.mark.parametrize("place", ["after MergeBranch", "after commit of MergeSucceeded"])
def test_a_kill_at_any_moment_of_an_accept_loses_no_tick(world: World, place: str) -> None:
    prd = listed(world, [TICK_ITSELF, *WRITE, DONE])
    world.call("up", "PRD.md", "--no-server")
    world.call("accept", "US-001")
    with world.live("accept", "US-002", LOOPWRIGHT_CRASH_AT=place) as killed:
        until(lambda: killed.process.poll() is not None, "it is killed")
    assert killed.process.returncode == -signal.SIGKILL, killed.err
    world.call("up", "--no-server", code=None)
    world.call("accept", "US-002")
    assert prd.read_text() == PRD.replace("[ ]", "[x]")


def test_a_tick_does_not_keep_the_base_from_following_the_remote(world: World) -> None:
    prd = listed(world, [DONE])
    before = world.git("rev-parse", "HEAD")
    prd.write_text(PRD.replace("[ ] a badge", "[x] a badge"))
    world.git("commit", "-qam", "Merged there")
    merged = world.git("rev-parse", "HEAD")
    world.git("reset", "-q", "--hard", before)
    branches = LocalBranches(world.repo, own_edits=TickedFiles(world.repo.resolve()))
    ticked = PRD.replace("[ ] the column", "[x] the column")
    prd.write_text(ticked + "mine\n")
    assert not asyncio.run(branches.forward("main", merged))
    prd.write_text(ticked)
    world.git("add", "PRD.md")
    assert not asyncio.run(branches.forward("main", merged)), "what is staged is the user's"
    world.git("reset", "-q")
    assert asyncio.run(branches.forward("main", merged))
    assert world.git("rev-parse", "HEAD") == merged
    assert prd.read_text() == PRD.replace("[ ]", "[x]")


def test_what_was_taken_out_is_made_again_after_a_kill(tmp_path: Path) -> None:
    (tmp_path / ".loopwright").mkdir()
    prd = tmp_path / "PRD.md"
    ticked = PRD.replace("[ ] a badge", "[x] a badge")
    prd.write_text(ticked)

    async def committed(name: str) -> bytes | None:
        assert name == "PRD.md"
        return PRD.encode()

    files = TickedFiles(tmp_path)
    assert asyncio.run(files.are_all(tmp_path, ["PRD.md"], committed))
    child = os.fork()
    if not child:

        async def killed() -> None:
            async with files.aside(tmp_path, ["PRD.md"], committed):
                os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(killed())
    os.waitpid(child, 0)
    assert prd.read_text() == PRD
    # What is there by then was merged meanwhile.
    prd.write_text(PRD + "- [ ] new\n")
    TickedFiles(tmp_path).make_again()
    assert prd.read_text() == ticked + "- [ ] new\n"
    assert not asyncio.run(files.are_all(tmp_path, ["PRD.md"], committed))


def test_a_note_that_a_loss_of_power_cut_short_stops_no_later_run(tmp_path: Path) -> None:
    (tmp_path / ".loopwright").mkdir()
    note = tmp_path / ".loopwright" / "ticks-aside.json"
    note.write_bytes(b"")
    TickedFiles(tmp_path).make_again()
    assert not note.exists()
