"""What people do to a pull request at the forge while its loop goes on."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from ci.forge.merge_rules import Rules
from lifecycle.loop import LoopResultType
from lifecycle.machine import events as on
from lifecycle.paths import Paths
from lifecycle.settings import Settings
from tests.acceptance.forge_life import Life
from tests.ci.gitea.gitea_world import GiteaWorld
from tests.ci.gitlab.gitlab_world import GitLabWorld
from tests.ci.ports import git
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from lifecycle.loop import LoopResult
    from tests.ci.forge.forge_world import ServedWorld

ASKS = {"breakpoint": {"type": "pr_created", "summary": "Please merge"}}
DONE = [{"breakpoint": {"type": "task_complete", "summary": "All is merged"}}]
FIRST = [{"write": {"path": "calc.py", "text": "x = 1\n"}}, {"commit": "Begin"}, ASKS]


@pytest.fixture(params=[GiteaWorld, GitLabWorld])
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ServedWorld[Any]]:
    async with request.param.running(tmp_path / "served") as served:
        yield served


@contextlib.asynccontextmanager
async def living(life: Life) -> AsyncIterator[asyncio.Task[LoopResult]]:
    """Yield the loop while it runs."""
    run = asyncio.create_task(life.loop.run_agent_loop(life.agent, life.task))
    try:
        await life.until_it_says("is open; ")
        yield run
    finally:
        await life.loop.shutdown()
        await asyncio.gather(run, return_exceptions=True)


def prompt(served: ServedWorld[Any], attempt: int) -> str:
    return Paths.of(served.origin.repo).prompt("agent-T001", attempt).read_text()


def push_as_somebody_else(served: ServedWorld[Any], folder: Path, branch: str) -> str:
    git(folder.parent, "clone", "-q", "-b", branch, str(served.origin.bare), str(folder))
    (folder / "theirs.txt").write_text("theirs\n")
    git(folder, "add", "theirs.txt")
    git(folder, "commit", "-qm", "A person's own")
    git(folder, "push", "-q", "origin", branch)
    return git(folder, "rev-parse", "HEAD")[1].decode().strip()


async def test_what_comes_after_a_merge_during_an_attempt_takes_another_pull_request(
    served: ServedWorld[Any], tmp_path: Path
) -> None:
    works, goes_on = tmp_path / "works", tmp_path / "goes_on"
    more = [
        {"write": {"path": str(works), "text": ""}},
        {"wait_file": {"path": str(goes_on)}},
        {"write": {"path": "calc.py", "text": "x = 2\n"}},
        {"commit": "Do as the review says"},
        ASKS,
    ]
    life = Life(served, tmp_path, script={"attempts": {"1": FIRST, "2": more, "default": DONE}})
    async with living(life) as run:
        await served.review(1, "Make it two")
        await until(works.exists)
        await served.merge(1)
        goes_on.touch()
        await until(lambda: list(served.served.pulls) == [1, 2])
        assert (await served.pull(2)).head_sha == served.origin.head("agent/agent-T001")
        await served.merge(2)
        result = await asyncio.wait_for(run, 40)
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 3)
    assert "Make it two" in prompt(served, 2)
    assert git(served.origin.repo, "show", "main:calc.py")[1] == b"x = 2\n"


async def test_who_closes_one_and_opens_it_again_confuses_no_loop(
    served: ServedWorld[Any], tmp_path: Path
) -> None:
    more = [{"write": {"path": "calc.py", "text": "x = 2\n"}}, {"commit": "Try again"}, ASKS]
    life = Life(served, tmp_path, script={"attempts": {"1": FIRST, "2": more, "default": DONE}})
    first = served.served.pulls
    async with living(life) as run:
        was = first[1].state
        # Closed and opened again between two looks: nobody need know.
        await served.forge.close_pull(1)
        first[1].state = was
        await served.review(1, "Make it two")
        await until(Paths.of(served.origin.repo).prompt("agent-T001", 2).exists)
        await life.until_it_says("is open; ")
        await served.forge.close_pull(1)
        await until(Paths.of(served.origin.repo).prompt("agent-T001", 3).exists)
        result = await asyncio.wait_for(run, 40)
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 3)
    assert "closed" in prompt(served, 3)


async def test_what_somebody_else_pushes_is_told_and_never_overwritten(
    served: ServedWorld[Any], tmp_path: Path
) -> None:
    more = [
        {"run": {"argv": ["git", "merge", "-q", "refs/loopwright/remote/agent/agent-T001"]}},
        {"write": {"path": "more.py", "text": "y = 2\n"}},
        {"commit": "Go on from there"},
        ASKS,
    ]
    rules = Rules(auto_merge=True, checks_grace=3600)
    script = {"attempts": {"1": FIRST, "2": more, "default": DONE}}
    life = Life(served, tmp_path, script=script, rules=rules)
    async with living(life) as run:
        branch = served.served.pulls[1].branch
        theirs = push_as_somebody_else(served, tmp_path / "theirs", branch)
        await until(Paths.of(served.origin.repo).prompt("agent-T001", 2).exists)
        await until(lambda: theirs in served.origin.parents(served.origin.head(branch) or ""))
        await life.until_it_says("is open; ")
        assert (await served.pull(1)).head_sha == served.origin.head(branch)
        await served.merge(1)
        result = await asyncio.wait_for(run, 40)
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert "has commits of somebody else" in prompt(served, 2)
    assert git(served.origin.repo, "show", "main:theirs.txt")[1] == b"theirs\n"


@pytest.mark.timeout(180)
async def test_a_bot_that_is_never_content_wakes_so_many_attempts_until_a_person_says_more(
    tmp_path: Path,
) -> None:
    attempts = {
        str(number): [
            {"write": {"path": "calc.py", "text": f"x = {number}\n"}},
            {"commit": f"Try number {number}"},
            ASKS,
        ]
        for number in range(1, 4)
    }
    settings = Settings(pr_merge_timeout=86_400.0, retry_interval=1.0, ci_fix_limit=1)
    async with GiteaWorld.running(tmp_path / "served") as served:
        rules = Rules(review_authors=("nitpicker",))
        life = Life(served, tmp_path, settings, script={"attempts": attempts}, rules=rules)
        of_attempt = Paths.of(served.origin.repo).prompt
        async with living(life):
            await served.review(1, "Nit 1", by="nitpicker")
            await until(of_attempt("agent-T001", 2).exists)
            await life.until_it_says("is open; ")
            await served.review(1, "Nit 2", by="nitpicker")
            said = await life.until_it_says("Needs you since")
            assert "after 1 attempt to fix what checks or bots found" in said
            assert "ci_fix_limit = 1" in said
            await served.review(1, "Nit 3", by="nitpicker")
            await until(lambda: told(life, "Nit 3"))
            assert not of_attempt("agent-T001", 3).exists()
            await served.review(1, "Make it five")
            await until(of_attempt("agent-T001", 3).exists)
    assert all(word in prompt(served, 3) for word in ("Nit 2", "Nit 3", "Make it five"))


async def told(life: Life, words: str) -> bool:
    """Return whether its records have this remark."""
    journal = await life.store.journal("agent-T001")
    return any(
        words in detail.text
        for entry in journal
        if isinstance(entry.event, on.Reviewed)
        for detail in entry.event.details
    )
