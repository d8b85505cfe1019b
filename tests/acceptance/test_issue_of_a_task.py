"""A plan whose task names an issue, run by the command as people type it, on a served forge."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ci.gitea.gitea_world import GiteaWorld
from tests.ci.ports import IDENTITY, git
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).parents[2]
OPENS = [
    {"write": {"path": "calc.py", "text": "x = 1\n"}},
    {"commit": "Begin"},
    {"breakpoint": {"type": "pr_created", "summary": "Please merge"}},
]
ENDS = [{"breakpoint": {"type": "task_complete", "summary": "All is merged"}}]


class Runner:
    """The command, in a repository whose forge is served here."""

    def __init__(self, world: GiteaWorld, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.environ = {
            **os.environ,
            **IDENTITY,
            world.token_variable: world.token,
            "PYTHONPATH": str(ROOT),
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def plan(self, issue: str, **settings: object) -> Path:
        """Write the settings, and a plan beside the repository."""
        script, plan = self.folder / "script.json", self.folder / "plan.toml"
        agent = [sys.executable, "-S", "-P", "-m", "runtime.agents.scripted", str(script)]
        plan.write_text(
            f'[[tasks]]\nid = "T1"\ntitle = "Calculate"\nissue = {json.dumps(issue)}\n'
            f'agent = "scripted"\n[agents.scripted]\ncommand = {json.dumps(agent)}\n'
            f"env = {{ PYTHONPATH = {json.dumps(str(ROOT))} }}\n"
        )
        told = {
            "providers": ["gitea"], "forge_url": self.world.server.url + self.world.api,
            "forge_repo": self.world.repo, "isolation": "process", "retry_interval": 0.1,
            "max_retries": 1, **settings,
        }  # fmt: skip
        lines = (f"{name} = {json.dumps(value)}\n" for name, value in told.items())
        (self.world.origin.repo / "loopwright.toml").write_text("".join(lines))
        git(self.world.origin.repo, "add", "loopwright.toml")
        git(self.world.origin.repo, "commit", "-qm", "Settings")
        git(self.world.origin.repo, "push", "-q", "origin", "HEAD:main")
        return plan

    def script(self, **attempts: object) -> None:
        (self.folder / "script.json").write_text(json.dumps({"attempts": attempts}))

    async def start(self, *words: object) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "orchestrator.cli.main", *map(str, words)),
            cwd=self.world.origin.repo,
            env=self.environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def call(self, *words: object) -> tuple[int | None, str]:
        """Run to the end; return how it ended and what it said."""
        process = await self.start(*words)
        said, _ = await process.communicate()
        return process.returncode, said.decode()

    @contextlib.asynccontextmanager
    async def running(self, *words: object) -> AsyncIterator[asyncio.subprocess.Process]:
        process = await self.start(*words)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            await process.communicate()


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[Runner]:
    async with GiteaWorld.running(tmp_path / "served", pushes=False) as world:
        yield Runner(world, tmp_path)


@pytest.mark.timeout(120)
async def test_an_issue_is_commented_on_labelled_and_closed_by_its_task(runner: Runner) -> None:
    world = runner.world
    number = await world.new_issue("bug")
    runner.script(**{"1": OPENS, "default": ENDS})
    settings = {"issue_labels_working": ["in progress"], "issue_close": True, "require_ci": False}
    plan = runner.plan(f"{world.server.url}/{world.repo}/issues/{number}", **settings)
    async with runner.running("up", plan, "--port", "0") as process:
        await until(lambda: 1 in world.served.pulls, "the pull request")
        assert world.served.pulls[1].body.endswith(f"Closes #{number}")
        seen = await world.issue(number)
        assert set(seen.labels) == {"bug", "in progress"}
        assert "task `T1` (`Calculate`)" in seen.said[0]
        # A runner that is killed and one that follows it say nothing twice.
        process.kill()
    async with runner.running("up", plan, "--port", "0"):
        await world.merge(1)
        issue = world.served.issues[number]
        await until(lambda: issue.labels == ["bug"], "the end of the label")
        assert len(issue.comments) == 1
    assert not issue.open


@pytest.mark.timeout(120)
async def test_a_task_that_is_given_up_says_so_in_its_comment(runner: Runner) -> None:
    number = await runner.world.new_issue()
    runner.script(default=[{"exit": 3}])
    code, said = await runner.call("up", runner.plan(f"#{number}", max_retries=0), "--port", "0")
    assert code == 5, said
    (comment,) = (await runner.world.issue(number)).said
    assert "It was given up" in comment


async def test_an_issue_elsewhere_is_refused_where_the_plan_is_read(runner: Runner) -> None:
    code, said = await runner.call("up", runner.plan("https://elsewhere.test/o/r/issues/1"))
    assert code == 2, said
    assert "task T1" in said
    assert "is not at 127.0.0.1" in said
    code, said = await runner.call("up", runner.plan("JIRA-1"))
    assert code == 2, said
    assert "does not name an issue: give its number" in said


@pytest.mark.timeout(180)
async def test_a_task_that_is_added_names_its_issue_as_one_of_a_plan_does(runner: Runner) -> None:
    world = runner.world
    number = await world.new_issue()
    runner.script(default=OPENS)
    runner.plan("1", require_ci=False)
    agent = (sys.executable, "-S", "-P", "-m", "runtime.agents.scripted")
    script = runner.folder / "script.json"
    command = shlex.join(("env", f"PYTHONPATH={ROOT}", *agent, str(script)))
    add = ("add", "Calculate", "--command", command, "--issue")
    for wrong, why in (
        ("JIRA-1", "does not name an issue: give its number"),
        ("https://elsewhere.test/o/r/issues/1", "is not at 127.0.0.1"),
    ):
        code, said = await runner.call(*add, wrong)
        assert (code, why in said) == (2, True), said
    code, said = await runner.call(*add, f"{world.server.url}/{world.repo}/issues/{number}")
    assert code == 0, said
    async with runner.running("up", "--port", "0"):
        await until(lambda: 1 in world.served.pulls, "the pull request")
        assert world.served.pulls[1].body.endswith(f"Closes #{number}")
        assert "task `T001`" in (await world.issue(number)).said[0]
