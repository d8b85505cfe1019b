"""A whole life on GitHub, as the example lives it: real processes, git and webhooks."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.ci.github.emulated import emulated
from tests.ci.ports import git

if TYPE_CHECKING:
    from tests.ci.github.emulated import Emulated

__all__ = ["emulated"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "github_emulated" / "run.py"


def example() -> Any:
    spec = importlib.util.spec_from_file_location("github_emulated_run", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.timeout(150)
async def test_red_ci_a_fix_a_review_another_fix_the_merge_and_the_acceptance(
    tmp_path: Path, emulated: Emulated
) -> None:
    story = example()
    async with story.prepared(tmp_path, emulated) as (world, runner):
        end = await story.story(world, runner)
        entries = json.loads(await runner.call("events", story.AGENT, "--json"))
        mail = json.loads(await runner.call("hooks", "list", "--json", "--limit", "200"))
        second = await runner.call("summary", story.AGENT, "2")
        third = await runner.call("summary", story.AGENT, "3")
        pull = await world.forge.find_pull(f"agent/{story.AGENT}")
        assert pull is not None
        remarks = (await world.forge.reviews(pull)).remarks
        code = await runner.stop()
    assert end["lifecycle"]["state"] == "accepted"
    assert [row["outcome"] for row in end["attempts"]] == [
        "blocked", "pr_created", "pr_created", "task_complete",
    ]  # fmt: skip
    told = [entry["event"]["kind"] for entry in entries]
    for fact in ("CiReported", "PullRequestOpened", "Reviewed", "PullRequestMoved"):
        assert fact in told
    # Each fresh agent saw what it had to mend, as data between fences.
    assert "step Run pytest" in second
    assert "assert add(2, 2) == 4" in second
    assert "calc.py:1 by rita" in third
    assert "please add a docstring" in third
    # The reviewer has an answer below the remark, by the id that the agent read.
    (asked,) = [each for each in remarks if each.path and not each.own]
    (answer,) = [each for each in remarks if each.path and each.own]
    assert f"**{asked.id}** `calc.py:1 by rita`" in third
    assert answer.ref == asked.ref
    assert "*Answer of agent-T001, posted by Loopwright:*" in answer.body
    assert "Done: it says what it returns" in answer.body
    states = {each["state"] for each in mail["deliveries"]}
    assert "matched" in states
    assert "received" not in states
    # What was merged there is here, once, with nothing of Loopwright's beside it.
    assert git(world.root, "show", "main:calc.py")[1].decode().count("Return the sum") == 1
    assert git(world.root, "status", "--porcelain")[1].decode() == "?? loopwright.toml\n"
    assert code == 143
