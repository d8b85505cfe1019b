"""`require_ci = "auto"`: no check at all is enough only where nothing checks the base either."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci.events import CIEventType
from ci.forge.merge_rules import Rules
from ci.interface import CIWatch
from tests.ci.contract import BASE, until
from tests.ci.forge.remote_world import RemoteWorld
from tests.ci.gitea.gitea_world import GiteaWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ci.forge.forge_world import ServedWorld

BRANCH = "agent/a"
AUTO = Rules(require_ci="auto", auto_merge=True, checks_grace=0)


async def waiting(world: RemoteWorld) -> None:
    """Wait for a pull request on which no check runs."""
    await world.start()
    sha = await world.commit(BRANCH, outcome="")
    pull = await world.provider.create_pull_request(branch=BRANCH, base=BASE, title="Do it")
    world.provider.watch(CIWatch(key="a", branch=BRANCH, sha=sha, number=pull.number))


async def test_a_base_that_was_checked_before_its_newest_commits_is_checked(
    served_type: type[ServedWorld[Any]], tmp_path: Path
) -> None:
    async with served_type.running(tmp_path / "forge") as forge:
        await forge.commit(BASE)
        for _ in range(4):
            await forge.commit(BASE, outcome="")
        assert await forge.forge.is_checked(BASE)
        world = RemoteWorld(forge, tmp_path / "state", rules=AUTO)
        await waiting(world)

        async def stands() -> bool:
            return "is open" in (await world.documents.all("ci.waits")).get("a", {}).get("text", "")

        await until(stands, "the look at the pull request")
        for _ in range(3):
            await world.polled(1)
        assert CIEventType.PR_MERGED not in [each.type for each in world.events]
        await world.aclose()


async def test_where_nothing_checks_the_base_none_is_enough(
    served_type: type[ServedWorld[Any]], tmp_path: Path
) -> None:
    async with served_type.running(tmp_path / "forge") as forge:
        world = RemoteWorld(forge, tmp_path / "state", rules=AUTO)
        await waiting(world)
        await until(lambda: CIEventType.PR_MERGED in [each.type for each in world.events])
        await world.aclose()


async def test_gitea_is_asked_once_about_each_older_commit(tmp_path: Path) -> None:
    async with GiteaWorld.running(tmp_path / "forge") as forge:
        shas = [await forge.commit(BASE, outcome="") for _ in range(12)][::-1]
        for _ in range(3):
            assert not await forge.forge.is_checked(BASE)

        def times(sha: str) -> int:
            return forge.server.count("GET", f"{forge.at}/commits/{sha}/statuses")

        assert [times(sha) for sha in shas] == [3, *[1] * 9, 0, 0]
