"""Issues of a forge are imported as tasks by what a user types."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from tests.ci.gitea.gitea_world import GiteaWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.loopkit import World


async def test_issues_of_a_label_become_a_plan(world: World, tmp_path: Path) -> None:
    async with GiteaWorld.running(tmp_path / "forge") as forge:
        number = await forge.new_issue("ready", title="Add a page", body="With a heading.")
        world.git("remote", "add", "origin", f"{forge.server.url}/{forge.repo}.git")
        typed = ("tasks", "import", "gitea:label=ready", "--json")
        with world.live(*typed, LOOPWRIGHT_GITEA_TOKEN=forge.token) as run:
            read = json.loads(await asyncio.to_thread(run.ends, 0))
        (task,) = read["tasks"]
        assert (task["id"], task["issue"]) == (f"issue-{number}", f"{number}")
        assert (task["title"], task["description"]) == ("Add a page", "With a heading.")
        assert task["source"] == f"gitea:{forge.forge.place}#issue-{number}"
        with world.live(*typed, "--append", LOOPWRIGHT_GITEA_TOKEN=forge.token) as run:
            again = json.loads(await asyncio.to_thread(run.ends, 0))
        assert (again["tasks"], again["known"]) == ([], [f"issue-{number}"])
        with world.live(
            "tasks", "import", "gitea:999", "--dry-run", LOOPWRIGHT_GITEA_TOKEN=forge.token
        ) as run:
            await asyncio.to_thread(run.ends, 2)
            assert "cannot be read" in run.err
        with world.live("up", "gitea:label=ready") as run:
            await asyncio.to_thread(run.ends, 2)
            assert "there is no token" in run.err
