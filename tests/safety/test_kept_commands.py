"""A command in whose place a marker is kept is never run: neither as an agent nor as a gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import PlanError
from lifecycle.mask_values import refuse_markers
from lifecycle.plan import Agent, Task
from lifecycle.settings import Settings
from lifecycle.working_copy import facts_of
from runtime.masking.masker import Masker
from tests.orchestrator.filled import loop_of
from tests.orchestrator.loopkit import DONE, World

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "Zx81spectrum48kMore"  # noqa: S105  # of nothing
MARKER = "***API_TOKEN***"
SHORT = Settings(max_retries=1, retry_interval=0.01, retry_interval_cap=0.02, baseline=False)


@pytest.fixture
def world(tmp_path: Path, clean_home: Path) -> World:
    del clean_home
    return World(tmp_path)


def agent_of(world: World, *more: str) -> Agent:
    command = (*world.script("agent", [DONE]).split(), *more)
    return Agent(agent_id="agent-T001", command=command, env={"API_TOKEN": SECRET})


def as_kept(agent: Agent, task: Task) -> tuple[Agent, Task]:
    """Return what a runner has that takes a lifecycle up without its plan."""
    facts = facts_of(task, agent, Masker())
    kept = Agent.model_validate(facts["agent"]).model_copy(update={"env": {}})
    return kept, Task.model_validate(facts["task"])


async def test_with_its_plan_a_command_runs_with_the_secret_in_it(world: World) -> None:
    """What must go on to work: only what is kept has the marker."""
    done = world.folder / "done"
    task = Task(id="T001", title="x", verify=(f"echo {SECRET} > {done}",))
    result = await loop_of(world.repo, settings=SHORT).run_agent_loop(agent_of(world), task)
    assert result.result_type == "task_complete"
    assert done.read_text() == f"{SECRET}\n"


@pytest.mark.parametrize("where", ["gate", "program"])
@pytest.mark.parametrize("baseline", [False, True])
async def test_taken_up_from_its_record_neither_agent_nor_gate_is_run(
    world: World, where: str, *, baseline: bool
) -> None:
    done = world.folder / "done"
    verify = (f"echo {SECRET} >> {done}",) if where == "gate" else (f"echo x >> {done}",)
    agent, task = as_kept(
        agent_of(world, *([f"--key={SECRET}"] if where == "program" else [])),
        Task(id="T001", title="x", verify=verify),
    )
    settings = SHORT.model_copy(update={"baseline": baseline and where == "gate"})
    loop = loop_of(world.repo, settings=settings)
    result = await loop.run_agent_loop(agent, task)
    assert result.spawn_count == 0
    assert not done.exists()
    assert MARKER in (result.error or "")
    assert "run the plan again" in (result.error or "")
    assert "pass_env" in (result.error or "")


async def test_a_gate_that_comes_after_its_agent_is_refused_too(world: World) -> None:
    """General commands of the settings may change meanwhile."""
    done = world.folder / "done"
    ends = {"word": False}

    def settings() -> Settings:
        verify = (f"echo {MARKER} > {done}",) if ends["word"] else ()
        return SHORT.model_copy(update={"verify": verify, "max_retries": 0})

    loop = loop_of(
        world.repo,
        observers=(lambda news: ends.update(word=news.after == "Working" or ends["word"]),),
    )
    loop._settings = settings  # as a changed file does
    result = await loop.run_agent_loop(agent_of(world), Task(id="T001", title="x"))
    assert result.spawn_count == 1
    assert not done.exists()


@pytest.mark.parametrize("word", ["echo '*** tests ***'", "ls **/*", "echo ***", "a*b*c***"])
def test_asterisks_of_a_person_are_no_marker(word: str) -> None:
    refuse_markers("a verify command", [word])


def test_the_refusal_says_what_to_do() -> None:
    with pytest.raises(
        PlanError, match=r"^a verify command of T1 holds \*\*\*KEY\*\*\* .*pass_env"
    ):
        refuse_markers("a verify command of T1", ["true", "x --key ***KEY***"])


def test_a_task_with_a_secret_in_its_command_is_not_added(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever takes it up has only the record."""
    monkeypatch.setenv("GITHUB_TOKEN", SECRET)
    for more in (
        ("--command", "cat", "--verify", f"echo {SECRET}"),
        ("--command", f"cat {SECRET}"),
    ):
        done = world.call("add", "Do it", *more, code=None)
        assert done.code != 0
        assert "pass_env" in done.stderr
        assert SECRET not in done.stdout + done.stderr
    assert world.row() == {}
