"""What doctor says in advance about the rules of the branch that pull requests go into."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lifecycle.clock import SystemClock
from lifecycle.settings import Settings
from orchestrator.doctor.providers import providers
from orchestrator.runner.providers import ProviderInputs
from tests.ci.gitea.gitea_world import GiteaWorld
from tests.ci.gitlab.served_trains import TrainWorld

if TYPE_CHECKING:
    from pathlib import Path

RULES: dict[str, Any] = {
    "protected": True, "required_approvals": 2, "enable_status_check": True,
    "status_check_contexts": ["ci/unit"], "user_can_merge": False,
}  # fmt: skip


async def said(world: GiteaWorld | TrainWorld, **settings: Any) -> tuple[str, str, str]:
    """Return level, text and advice of what doctor says about the branch."""
    found = Settings(
        providers=(world.kind.name,), forge_url=world.server.url + world.api, forge_repo=world.repo,
        **settings,
    )  # fmt: skip
    inputs = ProviderInputs(
        repo=world.origin.repo,
        settings=lambda: found,
        environ={world.token_variable: world.token},
        now=SystemClock().now,
    )
    told = await asyncio.to_thread(lambda: list(providers(inputs)))
    (line,) = [each for each in told if each.what == "branch rules"]
    return line.level, line.found, line.mend


async def test_what_a_protected_branch_demands_is_said_before_the_first_merge(
    tmp_path: Path,
) -> None:
    async with GiteaWorld.running(tmp_path / "served") as world:
        level, text, _ = await said(world)
        assert (level, text) == ("ok", "to be merged into main needs nothing that we are told of")
        world.served.protection["main"] = RULES
        level, text, _ = await said(world)
        assert (level, text) == (
            "ok",
            "to be merged into main needs the checks ci/unit, 2 approvals",
        )
        level, text, advice = await said(world, auto_merge=True)
        assert (level, text.endswith("; the token may not merge")) == ("warn", True)
        assert "let the token's user merge into main" in advice


async def test_a_merge_train_and_what_a_project_demands_are_named(tmp_path: Path) -> None:
    async with TrainWorld.running(tmp_path / "served") as world:
        world.served.pipelines_must_pass = True
        level, text, _ = await said(world)
        needs = "to be merged into main needs its merge train, a pipeline that passed"
        assert (level, text) == ("ok", needs)
