"""What an agent is shut into and held to, as far as this machine can; else it is refused."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.launch import sandbox
from lifecycle.machine.events import AgentSpawned
from lifecycle.plan import Agent
from lifecycle.result import LoopResult, LoopResultType
from lifecycle.settings import Settings
from runtime.errors import SpawnError
from tests.lifecycle.world import AGENT, DONE, ROOT, Step, World, commit, git
from tests.tools.machine import gives

if TYPE_CHECKING:
    from pathlib import Path

HUNGRY = (
    "held = bytearray(400 * 2**20)\nfor at in range(0, len(held), 4096): held[at] = 1\nprint('fed')"
)
NOSY = """\
import pathlib, sys
for place in sys.argv[1:]:
    try:
        print(place, 'is', pathlib.Path(place).read_text()[:20] or 'empty')
    except OSError as problem:
        print(place, 'hidden', problem.errno)
"""


def _run_python(program: str, *arguments: object) -> Step:
    return {"run": {"argv": [sys.executable, "-S", "-c", program, *map(str, arguments)]}}


async def _in_a_sandbox(world: World, steps: list[Step], **settings: Any) -> LoopResult:
    # The script and the program under test lie where the sandbox shows nothing by itself.
    opened = (str(world.folder), str(ROOT))
    return await world.run(steps, isolation="container", sandbox_readable=opened, **settings)


def _log(world: World, attempt: int = 1) -> str:
    return world.paths.log(AGENT, attempt).read_text()


async def test_a_whole_loop_runs_in_a_sandbox_and_its_commits_arrive(world: World) -> None:
    result = await _in_a_sandbox(world, [*commit("x.txt"), DONE], max_retries=0)
    if gives(isolation="container"):
        assert result.result_type is LoopResultType.TASK_COMPLETE
        assert git(world.repo, "show", f"agent/{AGENT}:x.txt")
    else:
        assert result.result_type is LoopResultType.ERROR
        assert "container" in str(result.error)


async def test_an_agent_in_a_sandbox_does_not_see_what_one_outside_sees(
    world: World, tmp_path: Path
) -> None:
    secret = tmp_path / "elsewhere" / "secret"
    secret.parent.mkdir()
    secret.write_text("the key")
    look = [_run_python(NOSY, secret, world.paths.database), *commit("x.txt"), DONE]
    await world.run(look)
    assert f"{secret} is the key" in _log(world)
    if not gives(isolation="container"):
        return
    agent = world.agent(look, "agent-boxed")
    world.settings.update(isolation="container", sandbox_readable=(agent.command[-1], str(ROOT)))
    sandboxed = await world.loop().run_agent_loop(agent, world.task("T002"))
    assert sandboxed.result_type is LoopResultType.TASK_COMPLETE
    said = world.paths.log("agent-boxed", 1).read_text()
    assert f"{secret} hidden 2" in said
    assert f"{world.paths.database} hidden 2" in said


async def test_gates_and_builds_are_shut_in_like_the_agent_whose_work_they_run(
    world: World, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the key")
    task = world.task(verify=[f"cat {secret}"])
    outside = await world.run([*commit("x.txt"), DONE], task=task, max_retries=0)
    assert outside.result_type is LoopResultType.TASK_COMPLETE
    if not gives(isolation="container"):
        return
    agent = world.agent([*commit("x.txt"), DONE], "agent-boxed")
    world.settings.update(isolation="container", sandbox_readable=(agent.command[-1], str(ROOT)))
    inside = await world.loop(ci=world.ci(f"cat {secret}")).run_agent_loop(
        agent, world.task("T002", verify=[f"cat {secret}"])
    )
    assert inside.result_type is LoopResultType.MAX_RETRIES
    assert f"`cat {secret}` ended with code 1" in str(inside.error)


async def test_a_gate_that_meets_a_limit_says_so(world: World) -> None:
    if not gives(memory_limit_mb=128):
        return
    hungry = f"exec {sys.executable} -S -c '{HUNGRY}'".replace("print('fed')", "print(1)")
    result = await world.run(
        [*commit("x.txt"), DONE], task=world.task(verify=[hungry]), memory_limit_mb=128,
        max_retries=1, baseline=False, stuck_limit=9,
    )  # fmt: skip
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert "[it met the memory limit 128 MB]" in world.prompt(2)
    assert "met the memory limit 128 MB" in (await world.attempts())[0].error


async def test_a_memory_limit_ends_the_attempt_by_name_and_costs_a_retry(world: World) -> None:
    steps = {1: [_run_python(HUNGRY), DONE], 2: [*commit("x.txt"), DONE]}
    if not gives(memory_limit_mb=128):
        refused = await world.run(steps, memory_limit_mb=128)
        assert refused.result_type is LoopResultType.ERROR
        assert "memory limit 128 MB cannot be enforced" in str(refused.error)
        return
    result = await world.run(steps, memory_limit_mb=128)
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    first, _ = await world.attempts()
    assert (first.outcome, first.error) == ("limit", "limit: memory limit 128 MB")
    assert "memory limit 128 MB" in world.prompt(2)
    assert "smaller pieces" in world.prompt(2)


@pytest.mark.parametrize("wanted", [{"isolation": "container", "sandbox_engine": "docker"}])
async def test_what_this_machine_cannot_give_is_refused_before_anything_starts(
    world: World, wanted: dict[str, Any]
) -> None:
    with pytest.raises(SpawnError, match="docker"):
        sandbox.check(Settings.model_validate(wanted))
    result = await world.run([DONE], **wanted)
    assert result.result_type is LoopResultType.ERROR
    assert result.spawn_count == 0
    assert "docker" in str(result.error)


async def test_the_next_weaker_is_given_only_where_that_is_allowed_and_is_told() -> None:
    settings = Settings.model_validate(
        {"isolation": "container", "sandbox_engine": "docker", "allow_weaker": True}
    )
    (told,) = sandbox.check(settings)
    assert "docker" in told


async def test_a_program_by_its_bare_name_is_found_for_the_sandbox(world: World) -> None:
    if not gives(isolation="container"):
        return
    agent = Agent(agent_id="agent-bare", command=("sh", "-c", "echo found; exit 3"))
    world.settings.update(isolation="container", max_retries=0)
    result = await world.loop().run_agent_loop(agent, world.task())
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert world.paths.log("agent-bare", 1).read_text() == "found\n"


async def test_what_an_attempt_is_shut_into_is_in_the_journal_and_in_the_audit(
    world: World,
) -> None:
    settings: dict[str, Any] = {
        "isolation": "container",
        "sandbox_engine": "docker",
        "allow_weaker": True,
    }
    await world.run([*commit("x.txt"), DONE], **settings)
    spawned = next(each.fact for each in world.news if isinstance(each.fact, AgentSpawned))
    assert spawned.containment == "level process"
    (told,) = spawned.weaker
    assert "docker" in told
    entries = await world.store.trail.entries()
    (spawn,) = [entry for entry in entries if entry.action == "spawn"]
    assert told in spawn.reason


@pytest.mark.parametrize("isolation", ["process", "container"])
async def test_an_agent_finds_loopwright_by_its_bare_name_wherever_that_is_installed(
    world: World, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    """Here the runner's PATH does not lead to it."""
    monkeypatch.setenv("PATH", os.defpath)
    if isolation == "container" and not gives(isolation="container"):
        return
    done = "loopwright signal task_complete --summary 'all is done'"
    steps: list[Step] = [*commit("x.txt"), {"run": ["sh", "-c", done]}]
    opened = (str(world.folder), str(ROOT))
    result = await world.run(steps, isolation=isolation, sandbox_readable=opened, max_retries=0)
    assert result.result_type is LoopResultType.TASK_COMPLETE, _log(world)
    assert result.summary == "all is done"


async def test_a_gate_in_a_sandbox_finds_the_interpreter_of_the_checkouts_own_environment(
    world: World,
) -> None:
    if not gives(isolation="container"):
        return
    make = "python3 -m venv --without-pip .venv && .venv/bin/python -c 'import ssl'"
    task = world.task(verify=[f"{make} && cat .venv/pyvenv.cfg"])
    result = await world.run(
        [*commit("x.txt"), DONE], task=task, isolation="container", max_retries=0, baseline=False,
        sandbox_readable=(str(world.folder), str(ROOT)),
    )  # fmt: skip
    assert result.result_type is LoopResultType.TASK_COMPLETE, result.error
