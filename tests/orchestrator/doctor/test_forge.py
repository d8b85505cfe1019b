"""What `doctor` says about a forge, over a served Gitea."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lifecycle.clock import SystemClock
from lifecycle.settings import Settings
from orchestrator.approval.restricting_values import PLAN_FILES
from orchestrator.doctor.machine import BAD, OK, WARN
from orchestrator.doctor.providers import providers
from orchestrator.runner.providers import ProviderInputs, make_providers
from tests.ci.forge_server import fails
from tests.ci.gitea.gitea_world import GiteaWorld
from tests.ci.ports import git

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from orchestrator.doctor.machine import Diagnosis


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[GiteaWorld]:
    async with GiteaWorld.running(tmp_path / "world") as served:
        yield served


def inputs(world: GiteaWorld) -> ProviderInputs:
    repo = world.origin.repo
    git(repo, "remote", "add", "there", f"{world.server.url}/{world.repo}.git")
    settings = Settings(providers=("gitea",), remote="there")
    environ = {"LOOPWRIGHT_GITEA_TOKEN": world.token}
    return ProviderInputs(repo, lambda: settings, environ, SystemClock().now)


async def found(world: GiteaWorld) -> list[Diagnosis]:
    told = await asyncio.to_thread(lambda: list(providers(inputs(world))))
    return [each for each in told if each.what == "forge"]


async def test_a_token_that_may_write_is_good(world: GiteaWorld) -> None:
    (told,) = await found(world)
    assert told.level == OK
    assert told.found.endswith("as agent, signed in by LOOPWRIGHT_GITEA_TOKEN")


async def test_a_token_that_may_only_read_is_bad_as_nothing_can_be_pushed(
    world: GiteaWorld,
) -> None:
    world.served.people["agent"] = "read"
    (told,) = await found(world)
    assert told.level == BAD
    assert "add it there as a collaborator" in told.mend


async def test_a_renamed_repository_is_bad_although_it_can_be_read(world: GiteaWorld) -> None:
    world.served.repo = "team/renamed"
    told = (await found(world))[0]
    assert told.level == BAD
    assert "is called team/renamed now" in told.found
    assert "git remote set-url" in told.mend


async def test_webhooks_of_a_repository_count_under_both_its_names(world: GiteaWorld) -> None:
    made = make_providers(inputs(world))
    assert made.forge is not None
    try:
        assert await made.is_ours("gitea", "Team/Loops")
        assert await made.is_ours("gitea", "")
        assert not await made.is_ours("github", world.repo)
        assert await made.is_ours("generic", "any/thing")
        world.served.repo = "team/renamed"
        asked = len(world.server.requests)
        assert await made.is_ours("gitea", "team/renamed")
        assert not await made.is_ours("gitea", "team/others")
        # Hooks of an organisation are about many others.
        assert len([each for each in world.server.requests[asked:] if each.status == 200]) == 1
    finally:
        await made.forge.aclose()


async def test_issues_that_cannot_be_changed_are_told_if_a_plan_names_one(
    world: GiteaWorld,
) -> None:
    asked = inputs(world)

    async def said() -> list[Diagnosis]:
        told = await asyncio.to_thread(lambda: list(providers(asked)))
        return [each for each in told if each.what == "issues"]

    world.server.route("GET", f"{world.at}/issues", fails(403))
    assert await said() == []
    (world.origin.repo / PLAN_FILES[0]).write_text('[[tasks]]\nid = "T1"\nissue = "12"\n')
    (told,) = await said()
    assert (told.level, told.mend) == (WARN, "give it the scope write:issue")
    assert "the token may not read issues" in told.found
