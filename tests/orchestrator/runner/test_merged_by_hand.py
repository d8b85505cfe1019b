"""Completed work that cannot be merged as it was meant to be: what is told, and the way out."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.loopkit import DONE

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

AGENT = "agent-T001"
BRANCH = f"agent/{AGENT}"


def _work(world: World, *args: str) -> None:
    script = world.script("agent", [{"write": "a.txt"}, {"commit": "A"}, DONE])
    world.call("run", "x", "--command", script, *args)


def test_work_whose_records_were_lost_goes_into_the_branch_of_the_checkout(world: World) -> None:
    _work(world)
    shutil.rmtree(world.repo / ".loopwright")
    world.call("init", "--begin-anew")
    _work(world)
    assert "accepted, merged into main as" in world.call("accept", AGENT).stdout
    assert (world.repo / "a.txt").exists()


@pytest.mark.parametrize("start", ["detached", "a commit"])
def test_work_that_started_from_no_branch_is_accepted_once_it_is_merged_by_hand(
    world: World, start: str
) -> None:
    if start == "detached":
        world.git("checkout", "-q", "--detach")
    _work(world, *(("--base", world.git("rev-parse", "HEAD")) if start == "a commit" else ()))
    why = world.call("show", AGENT, "--why").stdout
    assert "merges it" not in why
    assert f"it was started from no branch: merge {BRANCH} into the branch" in why
    told = f"switch to one, `git merge {BRANCH}`, then accept again"
    assert told in world.call("accept", AGENT, code=3).stdout
    assert told in world.call("show", AGENT, "--why").stdout
    world.git("checkout", "-q", "main")
    assert told in world.call("accept", AGENT, code=3).stdout
    world.git("merge", "-q", BRANCH)
    head = world.git("rev-parse", "--short=7", "main")
    assert f"accepted, merged into main as {head}" in world.call("accept", AGENT).stdout
    assert "merged into main as" in world.call("show", AGENT, "--why").stdout
    assert world.branches() == ["main"]


def test_to_look_at_the_branch_of_an_agent_merges_nothing(world: World) -> None:
    world.git("checkout", "-q", "--detach")
    _work(world)
    world.git("worktree", "remove", "--force", str(world.workspace(AGENT)))
    world.git("checkout", "-q", BRANCH)
    assert "not merged" in world.call("accept", AGENT, code=3).stdout


@pytest.mark.parametrize("gone", ["feat", BRANCH])
def test_a_merge_for_which_a_branch_is_gone_says_how_to_make_it_again(
    world: World, gone: str
) -> None:
    start = world.git("rev-parse", "HEAD")
    world.git("branch", "feat")
    _work(world, "--base", "feat")
    head = world.git("rev-parse", BRANCH)
    world.git("update-ref", "-d", f"refs/heads/{gone}")
    made = f"git branch {gone} {start if gone == 'feat' else head}"
    told = f"there is no branch {gone} any more: `{made}`, then accept again"
    assert told in world.call("accept", AGENT, code=3).stdout
    why = world.call("show", AGENT, "--why").stdout
    assert told in why
    assert "merges it" not in why
    world.git(*made.split()[1:])
    assert "accepted, merged into feat as" in world.call("accept", AGENT).stdout
    assert world.git("show", "feat:a.txt") == world.git("show", f"{head}:a.txt")


def test_work_whose_base_is_gone_is_accepted_once_it_is_merged_elsewhere_by_hand(
    world: World,
) -> None:
    world.git("branch", "feat")
    _work(world, "--base", "feat")
    world.git("branch", "-D", "feat")
    world.git("merge", "-q", BRANCH)
    assert "accepted, merged into main as" in world.call("accept", AGENT).stdout
