"""Merging in Gitea, and each way of being refused, over a served Gitea and real git."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ci.checks import CheckState
from ci.errors import (
    UnreachableError,
)
from tests.ci.forge_server import answers, fails
from tests.ci.gitea_world import gitea_world
from tests.ci.served_git import BASE, ticking
from tests.ci.served_gitea_state import REPO

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ci.forge import ForgePull
    from tests.ci.gitea_world import GiteaWorld

AT = f"/api/v1/repos/{REPO}"
WRONG = "a-wrong-token"
PASSED, FAILED, PENDING = CheckState.PASSED, CheckState.FAILED, CheckState.PENDING


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[GiteaWorld]:
    async with gitea_world(tmp_path / "world") as served:
        yield served


async def opened(
    world: GiteaWorld, branch: str = "agent/a", *, shared: str | None = "a", title: str = "Do it"
) -> ForgePull:
    await world.commit(branch, shared=shared)
    return await world.forge.create_pull(branch=branch, base=BASE, title=title, body="Why.")


async def merge(
    world: GiteaWorld, pull: ForgePull, method: str = "merge", message: str = ""
) -> Any:
    return await world.forge.merge(pull, sha=pull.head_sha, method=method, message=message)


async def test_merging_is_tried_again_while_the_server_finds_out(world: GiteaWorld) -> None:
    pull = await opened(world)
    world.served.pulls[1].looked = ("", "")
    world.server.route("GET", f"{AT}/pulls/1", answers(world.served._shown(world.served.pulls[1])))
    # Looking does not help here: it is the first try to merge that makes the server look.
    result = await merge(world, pull)
    assert not result.merged
    assert world.server.count("POST", f"{AT}/pulls/1/merge", status=405) == 1
    assert world.server.count("POST", f"{AT}/pulls/1/merge", status=200) == 1
    assert await world.merged_text() == "a"


async def test_a_merge_moves_the_base_and_says_its_commit(world: GiteaWorld) -> None:
    pull = await opened(world)
    result = await merge(world, pull, message="Merge it\n\nBecause.")
    assert result.merged
    assert result.commit == await world.forge.head(BASE)
    assert world.origin.message(result.commit or "") == "Merge it\n\nBecause."
    assert await world.merged_text() == "a"
    assert await merge(world, pull) == result
    assert world.server.count("POST", f"{AT}/pulls/1/merge", status=200) == 1


async def test_squash_and_rebase_are_what_they_say(world: GiteaWorld) -> None:
    first = await opened(world)
    squashed = await merge(world, first, "squash", "As one")
    assert len(world.origin.parents(squashed.commit)) == 1
    second = await opened(world, "agent/b", shared="b")
    rebased = await merge(world, second, "rebase")
    assert (rebased.merged, rebased.commit) == (True, second.head_sha)


async def test_a_style_that_the_repository_does_not_allow_is_told(world: GiteaWorld) -> None:
    world.served.styles = {"squash"}
    result = await merge(world, await opened(world))
    assert not result.merged
    assert "merge style" in result.reason


async def test_another_head_than_was_looked_at_is_not_merged(world: GiteaWorld) -> None:
    pull = await opened(world)
    newer = await world.commit("agent/a", shared="newer")
    result = await merge(world, pull)
    assert not result.merged
    assert newer in result.reason
    assert await world.merged_text() == "base"


async def test_a_head_that_moves_while_merging_is_stopped_by_the_server(world: GiteaWorld) -> None:
    pull = await opened(world)
    shown = {**world.served._shown(world.served.pulls[1]), "mergeable": True}
    await world.commit("agent/a", shared="newer")
    world.server.route("GET", f"{AT}/pulls/1", answers(shown))
    result = await merge(world, pull)
    assert not result.merged
    assert "another commit" in result.reason
    assert await world.merged_text() == "base"


async def test_a_conflict_is_seen_and_not_merged(tmp_path: Path) -> None:
    now = [0.0]
    async with gitea_world(tmp_path / "w", now=lambda: ticking() + now[0], settles=60.0) as world:
        first, second = await opened(world), await opened(world, "agent/b", shared="b")
        await world.merge(first.number)
        result = await merge(world, second)
        assert not result.merged
        assert "conflicts with its base, or" in result.reason
        now[0] += 60.0
        result = await merge(world, second)
        assert "merge main into agent/b" in result.reason
        seen = await world.forge.pull(second.number)
        assert seen is not None
        assert seen.mergeable is False
        assert await world.merged_text() == "a"


async def test_not_merging_is_believed_once_the_server_had_time_to_find_out(
    tmp_path: Path,
) -> None:
    now = [0.0]
    async with gitea_world(tmp_path / "w", now=lambda: ticking() + now[0], settles=60.0) as world:
        pull = await opened(world)
        world.server.route(
            "GET", f"{AT}/pulls/1", answers(world.served._shown(world.served.pulls[1]))
        )
        for step, mergeable in ((0.0, None), (30.0, None), (30.0, False)):
            now[0] += step
            seen = await world.forge.pull(pull.number)
            assert seen is not None
            assert seen.mergeable is mergeable
        await world.commit("agent/a", shared="newer")
        world.server.route(
            "GET", f"{AT}/pulls/1", answers(world.served._shown(world.served.pulls[1]))
        )
        seen = await world.forge.pull(pull.number)
        assert seen is not None
        assert seen.mergeable is None, "a new head is looked at anew"


async def test_drafts_and_closed_ones_and_lost_ones_are_not_merged(world: GiteaWorld) -> None:
    draft = await opened(world, title="WIP: not yet")
    assert (draft.draft, draft.hindrance) == (True, "draft")
    assert "draft" in (await merge(world, draft)).reason
    world.served.pulls[1].title = "Now"
    await world.forge.close_pull(1)
    assert "closed" in (await merge(world, draft)).reason
    del world.served.pulls[1]
    assert "no pull request 1" in (await merge(world, draft)).reason
    assert world.server.count("POST", f"{AT}/pulls/1/merge") == 0


async def test_a_rule_of_the_branch_is_told_as_the_server_words_it(world: GiteaWorld) -> None:
    world.served.refuses_merges = "Does not have enough approvals"
    result = await merge(world, await opened(world))
    assert not result.merged
    assert "enough approvals" in result.reason


@pytest.mark.parametrize(
    ("status", "words", "reason"),
    [
        (405, "User not allowed to merge PR", "may not merge"),
        (403, "no", "may not merge"),
        (409, "", "conflicts with its base"),
        (409, "merge push out of date", "another commit"),
        (423, "repo is archived", "archived"),
    ],
)
async def test_each_refusal_is_told_with_what_it_means(
    world: GiteaWorld, status: int, words: str, reason: str
) -> None:
    pull = await opened(world)
    world.server.route("POST", f"{AT}/pulls/1/merge", fails(status, words))
    result = await merge(world, pull)
    assert not result.merged
    assert reason in result.reason


async def test_trouble_of_the_server_while_merging_is_no_refusal(world: GiteaWorld) -> None:
    pull = await opened(world)
    world.server.route("POST", f"{AT}/pulls/1/merge", fails(502))
    with pytest.raises(UnreachableError):
        await merge(world, pull)
