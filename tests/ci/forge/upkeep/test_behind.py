"""A branch that must contain its base is brought up to date, checked anew, and then merged."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from ci.events import CIEventType
from ci.forge.merge_rules import Rules
from ci.interface import CIWatch
from tests.ci.contract import BASE, until
from tests.ci.forge.remote_world import RemoteWorld
from tests.ci.gitea.gitea_world import GiteaWorld
from tests.ci.gitlab.gitlab_world import GitLabWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.ci.forge.forge_world import ServedWorld
    from tests.ci.gitea.served_gitea import ServedGitea

BRANCH = "agent/a"


@contextlib.asynccontextmanager
async def behind(
    kind: type[ServedWorld[Any]],
    folder: Path,
    how: str,
    *,
    auto_merge: bool = True,
    but: Callable[[Any], object] = lambda _: None,
) -> AsyncIterator[tuple[RemoteWorld, ServedWorld[Any], CIWatch]]:
    """Have a green pull request whose base has a commit that it lacks; `but` changes the forge."""
    rules = Rules(auto_merge=auto_merge, checks_grace=0, behind_base=how)
    async with kind.running(folder / "forge", pushes=False) as forge:
        forge.demand_newest()
        but(forge.served)
        world = RemoteWorld(forge, folder / "state", rules=rules)
        await world.start()
        sha = await world.commit(BRANCH, shared="a")
        forge.origin.commit(BASE, "newer")
        pull = await world.provider.create_pull_request(branch=BRANCH, base=BASE, title="Do it")
        watch = CIWatch(key="a", branch=BRANCH, sha=sha, number=pull.number)
        world.provider.watch(watch)
        yield world, forge, watch
        await world.aclose()


@pytest.mark.parametrize(
    ("kind", "how"), [(GiteaWorld, "update"), (GiteaWorld, "merge"), (GitLabWorld, "update")]
)
async def test_it_is_brought_up_to_date_and_merged_once_that_is_green(
    kind: type[ServedWorld[Any]], how: str, tmp_path: Path
) -> None:
    async with behind(kind, tmp_path, how) as (world, forge, watch):
        await until(lambda: forge.origin.head(BRANCH) not in {None, watch.sha}, "the update")
        newer = forge.origin.head(BRANCH) or ""
        main = forge.origin.head(BASE)
        assert set(forge.origin.parents(newer)) == {watch.sha, main}
        # Nothing ran on it yet, and the commit that was green is not pushed over it.
        for _ in range(3):
            await world.polled(watch.number or 0)
        assert (forge.origin.head(BRANCH), forge.origin.head(BASE)) == (newer, main)
        # What stands for our commit is nobody else's.
        assert "somebody else" not in (await world.documents.all("ci.waits"))["a"]["text"]
        assert CIEventType.PR_CHANGES_REQUESTED not in [each.type for each in world.events]
        forge.run(BRANCH, newer, "green")
        await until(lambda: CIEventType.PR_MERGED in [each.type for each in world.events])
        assert "is not in it" not in world.events[-1].summary
        assert await world.merged_text() == "a"


@pytest.mark.parametrize("version", [(1, 21), (1, 27)])
@pytest.mark.parametrize("role", ["admin", "write"])
async def test_gitea_tells_administrators_the_rule_and_others_by_a_refusal(
    role: str, version: tuple[int, int], tmp_path: Path
) -> None:
    def but(served: ServedGitea) -> None:
        served.people["agent"], served.version = role, version

    async with behind(GiteaWorld, tmp_path, "update", but=but) as (_, forge, watch):
        await until(lambda: forge.origin.head(BRANCH) not in {None, watch.sha}, "the update")
        refused = forge.server.count("POST", f"{forge.pulls}/1/merge", status=405)
        assert refused == (0 if role == "admin" else 1)


async def test_a_word_in_another_refusal_brings_nothing_up_to_date(tmp_path: Path) -> None:
    def but(served: ServedGitea) -> None:
        served.demands_newest = False
        served.refuses_merges = (
            "User not allowed to merge PR [reason: Not all required status checks successful: "
            "behind-the-scenes]"
        )

    async with behind(GiteaWorld, tmp_path, "update", but=but) as (world, forge, watch):

        async def stands() -> bool:
            await world.polled(watch.number or 0)
            text = (await world.documents.all("ci.waits"))["a"]["text"]
            return "behind-the-scenes" in text

        await until(stands, "the refusal")
        assert forge.origin.head(BRANCH) == watch.sha


async def test_it_is_left_to_a_person_where_the_settings_say_so(tmp_path: Path) -> None:
    async with behind(GiteaWorld, tmp_path, "ask") as (world, forge, watch):
        await world.polled(watch.number or 0)

        async def stands() -> bool:
            await world.polled(watch.number or 0)
            text = (await world.documents.all("ci.waits"))["a"]["text"]
            return "bring it up to date" in text

        await until(stands, "the reason")
        assert forge.origin.head(BRANCH) == watch.sha


async def test_what_somebody_else_pushed_is_no_update(tmp_path: Path) -> None:
    async with behind(GiteaWorld, tmp_path, "ask") as (world, forge, watch):
        theirs = forge.origin.commit(BRANCH, "theirs", "theirs")
        forge.run(BRANCH, theirs, "green")

        async def stands() -> bool:
            await world.polled(watch.number or 0)
            text = (await world.documents.all("ci.waits"))["a"]["text"]
            return "is not a commit of this agent" in text

        await until(stands, "the reason")
        assert forge.origin.head(BRANCH) == theirs


@pytest.mark.parametrize("kind", [GiteaWorld, GitLabWorld])
async def test_a_merge_that_a_person_asks_for_brings_it_up_to_date_too(
    kind: type[ServedWorld[Any]], tmp_path: Path
) -> None:
    async with behind(kind, tmp_path, "update", auto_merge=False) as (world, forge, watch):
        number = watch.number or 0

        async def asked() -> str:
            return (await world.provider.merge(number, expected_sha=watch.sha)).reason

        async def says_so() -> bool:
            return "brought up to date" in await asked()

        await until(says_so, "the update")
        newer = forge.origin.head(BRANCH) or ""
        assert newer != watch.sha
        assert "not green" in await asked()
        forge.run(BRANCH, newer, "green")
        result = await world.provider.merge(number, expected_sha=watch.sha)
        assert result.merged
        assert await world.provider.merge(number, expected_sha=watch.sha) == result


@pytest.mark.parametrize("how", ["update", "merge"])
async def test_bringing_it_up_to_date_takes_away_nothing_that_somebody_else_pushed(
    how: str, tmp_path: Path
) -> None:
    async with behind(GiteaWorld, tmp_path, how, auto_merge=False) as (world, forge, watch):
        theirs = forge.origin.commit(BRANCH, "theirs", "theirs")
        forge.run(BRANCH, theirs, "green")
        await world.polled(watch.number or 0)

        async def asked() -> bool:
            # As `loopwright pr merge` asks: for whatever the pull request is at.
            await world.provider.merge(watch.number or 0)
            return forge.origin.head(BRANCH) != theirs

        await until(asked, "the update")
        newer = forge.origin.head(BRANCH) or ""
        assert set(forge.origin.parents(newer)) == {theirs, forge.origin.head(BASE)}
