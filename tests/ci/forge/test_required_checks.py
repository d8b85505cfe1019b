"""A red check that the protected base does not require, on a forge over HTTP: told, no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci.events import CIEventType
from ci.forge.merge_rules import Rules
from ci.interface import CIWatch
from tests.ci.contract import BASE, until
from tests.ci.forge.remote_world import RemoteWorld
from tests.ci.gitea.gitea_world import GiteaWorld
from tests.ci.github.github_world import EmulatedWorld
from tests.ci.gitlab.gitlab_world import GitLabWorld

if TYPE_CHECKING:
    from pathlib import Path

    from ci.events import CIEvent
    from tests.ci.forge.forge_world import ForgeWorld
    from tests.ci.github.emulated import Emulated

BRANCH, OPTIONAL = "agent/a", "codecov/patch"


async def merged(served: ForgeWorld, sha: str, folder: Path) -> list[CIEvent]:
    """Have the commit merged unasked, and return what was told until then."""
    rules = Rules(auto_merge=True, checks_grace=0)
    world = RemoteWorld(served, folder / "state", rules=rules)
    await world.start()
    try:
        pull = await world.provider.create_pull_request(branch=BRANCH, base=BASE, title="Do it")
        world.provider.watch(CIWatch(key="a", branch=BRANCH, sha=sha, number=pull.number))
        await until(lambda: CIEventType.PR_MERGED in [each.type for each in world.events])
    finally:
        await world.aclose()
    return world.events


def is_only_told(events: list[CIEvent], word: str = "failure") -> None:
    assert CIEventType.PR_CHECKS_FAILED not in [each.type for each in events]
    (green,) = [each for each in events if each.type is CIEventType.PR_CHECKS_PASSED]
    assert f"not required: {OPTIONAL} ({word})" in green.summary


async def test_gitea(tmp_path: Path) -> None:
    async with GiteaWorld.running(tmp_path / "forge", pushes=False) as forge:
        sha = await forge.commit(BRANCH, shared="a")
        forge.served.status(sha, OPTIONAL, "failure")
        contexts = [row["context"] for row in forge.served.statuses if row["context"] != OPTIONAL]
        forge.served.protection[BASE] = {
            "enable_status_check": True, "status_check_contexts": contexts,
        }  # fmt: skip
        is_only_told(await merged(forge, sha, tmp_path))


async def test_gitlab(tmp_path: Path) -> None:
    async with GitLabWorld.running(tmp_path / "forge", pushes=False) as forge:
        sha = await forge.commit(BRANCH, shared="a")
        forge.served.job(forge.served.pipelines[0], OPTIONAL, "failed", allow_failure=True)
        is_only_told(await merged(forge, sha, tmp_path), "failed")


async def test_github(tmp_path: Path, emulated: Emulated) -> None:
    async with EmulatedWorld.running(tmp_path, emulated, pushes=False) as forge:
        protection: dict[str, Any] = {
            "required_status_checks": {"strict": False, "contexts": ["ci"]},
            "enforce_admins": False, "required_pull_request_reviews": None, "restrictions": None,
        }  # fmt: skip
        await forge.call("PUT", f"/branches/{BASE}/protection", protection)
        assert (await forge.forge.branch_rules(BASE)).required_checks == ("ci",)
        sha = await forge.commit(BRANCH, shared="a")
        await forge.red(sha, OPTIONAL, "1 % less")
        is_only_told(await merged(forge, sha, tmp_path))
