"""Nothing is judged whose commands would use the code of the user's own checkout."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from lifecycle.result import LoopResultType
from tests.lifecycle.world import DONE, ROOT, World, commit, says
from tests.tools.machine import gives

if TYPE_CHECKING:
    from pathlib import Path


def editable(world: World, prefix: Path) -> None:
    """Make an environment outside, in which the user's checkout is installed to be edited."""
    site = prefix / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (prefix / "bin").mkdir()
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (site / "__editable__.calc-0.1.pth").write_text(f"{world.repo}/src\n")
    python = prefix / "bin" / "python"
    python.write_text("#!/bin/sh\nexit 0\n")
    python.chmod(0o755)


@pytest.mark.parametrize("command", ["timeout 60 python -m pytest -q", "./test.sh"])
async def test_imports_from_the_users_checkout_are_refused_before_the_first_attempt(
    world: World, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    editable(world, world.folder / "env")
    (world.repo / "test.sh").write_text("#!/bin/sh\nif true; then\n  python -m pytest\nfi\n")
    (world.repo / "test.sh").chmod(0o755)
    world.git("add", ".")
    world.git("-c", "user.name=Ada", "-c", "user.email=a@b", "commit", "-qm", "tests")
    monkeypatch.setenv("PATH", f"{world.folder}/env/bin:{os.environ['PATH']}")
    result = await world.run([*commit("x.txt"), DONE], task=world.task(verify=[command]))
    assert result.result_type is LoopResultType.ERROR
    assert await world.attempts() == ()
    assert f"calc would be the code in {world.repo}/src" in str(result.error)
    assert "__editable__.calc-0.1.pth" in str(result.error)
    assert "setup = [" in str(result.error)


async def test_imports_that_come_to_lead_there_later_are_no_failure_of_the_agent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = world.folder / "env"
    monkeypatch.setenv("PATH", f"{env}/bin:{os.environ['PATH']}")
    editable(world, env)
    path_file = env / "lib" / "python3.11" / "site-packages" / "__editable__.calc-0.1.pth"
    path_file.rename(env / "kept")
    result = await world.run(
        [*commit("x.txt"), {"run": ["mv", str(env / "kept"), str(path_file)]}, DONE],
        task=world.task(verify=["python -m pytest -q"]), max_environment_failures=0,
    )  # fmt: skip
    assert result.result_type is LoopResultType.ERROR
    assert result.retry_count == 0
    assert "the gates could not be run" in str(result.error)
    assert "calc would be the code in" in str(result.error)


async def test_a_commit_that_leads_there_is_red_and_the_agent_is_told(world: World) -> None:
    (world.repo / "y").mkdir()
    leading = f"module x\nreplace y => {world.repo}/y\n"
    result = await world.run(
        {1: [*commit("go.mod", leading), DONE], 2: [*commit("go.mod", "module x\n"), DONE]},
        task=world.task(verify=["true"]),
    )
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert await world.outcomes() == ["gate_failed", "task_complete"]
    assert f"go.mod names {world.repo}/y" in world.prompt(2)


async def test_a_program_of_the_users_environment_is_named_where_it_is_missed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = world.repo / ".venv" / "bin"
    own.mkdir(parents=True)
    (own / "judge-it").write_text("#!/bin/sh\nexit 0\n")
    (own / "judge-it").chmod(0o755)
    monkeypatch.setenv("PATH", f"{own}:{os.environ['PATH']}")
    result = await world.run(
        [*commit("x.txt"), DONE], task=world.task(verify=["judge-it"]), max_retries=1
    )
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert f"{own}/judge-it was not used" in world.prompt(2)
    assert "`setup`" in world.prompt(2)


async def test_local_ci_refuses_such_imports_as_well(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    editable(world, world.folder / "env")
    monkeypatch.setenv("PATH", f"{world.folder}/env/bin:{os.environ['PATH']}")
    blocked = [*commit("x.txt"), says("blocked", blocked_on=["ci"], reason="CI must say yes")]
    await world.run({1: blocked, 2: [DONE]}, ci=world.ci("python -m pytest"), ci_fix_limit=1)
    assert "build_success" not in world.prompt(2)
    assert "calc would be the code in" in world.prompt(2)


@pytest.mark.parametrize("level", ["process", "container"])
@pytest.mark.parametrize("place", [".venv/bin", "node_modules/.bin"])
async def test_no_program_that_an_agent_committed_judges_its_work(
    world: World, monkeypatch: pytest.MonkeyPatch, place: str, level: str
) -> None:
    if not gives(isolation=level):
        return
    # As many have it, which is as good as the folder itself.
    monkeypatch.setenv("PATH", f"node_modules/.bin:{os.environ['PATH']}")
    (world.repo / "test.sh").write_text("grep -q right answer.txt\n")
    (world.repo / "answer.txt").write_text("right\n")
    world.git("add", ".")
    world.git("-c", "user.name=Ada", "-c", "user.email=a@b", "commit", "-qm", "an answer")
    forged = f"mkdir -p {place}; printf '#!/bin/sh\\nexit 0\\n' > {place}/grep"
    forge = f"{forged}; chmod +x {place}/grep; git add -f {place}; echo wrong > answer.txt"
    built = says("blocked", blocked_on=["ci"], reason="CI must say yes")
    result = await world.run(
        {1: [{"run": {"argv": ["sh", "-c", forge]}}, {"commit": "my own grep"}, built], 0: [DONE]},
        task=world.task(verify=["sh test.sh"]), ci=world.ci("sh test.sh"), max_retries=1,
        isolation=level, sandbox_readable=(str(world.folder), str(ROOT)),
    )  # fmt: skip
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert "`sh test.sh` ended with 1" in world.prompt(2)
    assert "`sh test.sh` ended with code 1" in str(result.error)
    record = await world.record()
    assert record.facts["flagged"] == [f"{place}/grep"]
