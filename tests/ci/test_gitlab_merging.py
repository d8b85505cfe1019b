"""Merging in GitLab, and each way of being refused, over a served GitLab and real git."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.errors import (
    UnreachableError,
)
from ci.interface import PullRequestState
from tests.ci.forge_server import answers, fails
from tests.ci.gitlab_world import gitlab_world
from tests.ci.served_git import BASE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ci.forge import ForgePull
    from tests.ci.gitlab_world import GitLabWorld

WRONG = "glpat-wrong-one"
AT = "/api/v4/projects/team%2Ftools%2Floops"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[GitLabWorld]:
    async with gitlab_world(tmp_path / "world") as served:
        yield served


async def opened(
    world: GitLabWorld, branch: str = "agent/a", *, shared: str | None = "a", title: str = "Do it"
) -> ForgePull:
    await world.commit(branch, shared=shared)
    return await world.forge.create_pull(branch=branch, base=BASE, title=title, body="Why.")


async def test_merging_waits_for_gitlab_to_find_out_and_moves_the_branch(
    world: GitLabWorld,
) -> None:
    pull = await opened(world)
    result = await world.forge.merge(pull, sha=pull.head_sha, method="merge", message="Merge it")
    assert result.merged
    assert await world.merged_text() == "a"
    assert result.commit == await world.forge.head(BASE)
    assert world.origin.message(result.commit or "") == "Merge it"
    seen = await world.forge.pull(pull.number)
    assert seen is not None
    assert (seen.state, seen.merge_commit) == (PullRequestState.MERGED, result.commit)
    again = await world.forge.merge(pull, sha=pull.head_sha, method="merge", message="")
    assert again == result
    assert world.server.count("PUT", f"{AT}/merge_requests/1/merge") == 1


async def test_squashing_makes_one_commit_with_our_message(world: GitLabWorld) -> None:
    pull = await opened(world)
    result = await world.forge.merge(pull, sha=pull.head_sha, method="squash", message="As one")
    assert result.merged
    assert result.commit is not None
    assert len(world.origin.parents(result.commit)) == 1
    assert world.origin.message(result.commit) == "As one"


async def test_rebase_is_left_to_projects_that_merge_so(world: GitLabWorld) -> None:
    pull = await opened(world)
    refused = await world.forge.merge(pull, sha=pull.head_sha, method="rebase", message="")
    assert not refused.merged
    assert "fast-forward" in refused.reason
    world.served.merge_method = "ff"
    result = await world.forge.merge(pull, sha=pull.head_sha, method="rebase", message="")
    assert (result.merged, result.commit) == (True, pull.head_sha)


async def test_a_fast_forward_that_is_behind_says_that_it_must_be_rebased(
    world: GitLabWorld,
) -> None:
    pull = await opened(world, shared=None)
    world.served.merge_method = "ff"
    await world.commit(BASE, shared="moved")
    result = await world.forge.merge(pull, sha=pull.head_sha, method="merge", message="")
    assert "rebased" in result.reason


async def test_another_head_than_was_looked_at_is_not_merged(world: GitLabWorld) -> None:
    pull = await opened(world)
    newer = await world.commit("agent/a", shared="newer")
    result = await world.forge.merge(pull, sha=pull.head_sha, method="merge", message="")
    assert not result.merged
    assert newer in result.reason
    assert await world.merged_text() == "base"


async def test_a_head_that_moves_while_merging_is_stopped_by_the_forge(world: GitLabWorld) -> None:
    pull = await opened(world)
    shown = world.served._shown(world.served.merges[1], single=True)
    shown["detailed_merge_status"] = "mergeable"
    await world.commit("agent/a", shared="newer")
    world.server.route("GET", f"{AT}/merge_requests/1", answers(shown))
    result = await world.forge.merge(pull, sha=pull.head_sha, method="merge", message="")
    assert not result.merged
    assert "another commit" in result.reason
    assert world.server.count("PUT", f"{AT}/merge_requests/1/merge", status=409) == 1
    assert await world.merged_text() == "base"


async def test_a_conflict_is_seen_and_not_merged(world: GitLabWorld) -> None:
    first, second = await opened(world, "agent/a"), await opened(world, "agent/b", shared="b")
    await world.merge(first.number)
    result = await world.forge.merge(second, sha=second.head_sha, method="merge", message="")
    assert not result.merged
    assert "conflicts" in result.reason
    seen = await world.forge.pull(second.number)
    assert seen is not None
    assert (seen.mergeable, seen.hindrance) == (False, "conflict")
    assert await world.merged_text() == "a"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("not_approved", "approval"),
        ("ci_must_pass", "pipeline must pass"),
        ("discussions_not_resolved", "discussions"),
        ("a_word_of_tomorrow", "a_word_of_tomorrow"),
        ("locked_paths", "locked"),
    ],
)
async def test_each_hindrance_is_told_and_nothing_is_sent(
    world: GitLabWorld, word: str, reason: str
) -> None:
    pull = await opened(world)
    world.served.merges[1].says = word
    result = await world.forge.merge(pull, sha=pull.head_sha, method="merge", message="")
    assert not result.merged
    assert reason in result.reason
    assert world.server.count("PUT", f"{AT}/merge_requests/1/merge") == 0


async def test_drafts_closed_and_automatic_ones_are_not_merged(world: GitLabWorld) -> None:
    draft = await opened(world, title="Draft: not yet")
    assert draft.draft
    merging = world.forge.merge
    told = await merging(draft, sha=draft.head_sha, method="merge", message="")
    assert "draft" in told.reason
    merge = world.served.merges[1]
    merge.title, merge.auto = "Now", True
    told = await merging(draft, sha=draft.head_sha, method="merge", message="")
    assert "by itself" in told.reason
    await world.forge.close_pull(1)
    told = await merging(draft, sha=draft.head_sha, method="merge", message="")
    assert "closed" in told.reason
    del world.served.merges[1]
    told = await merging(draft, sha=draft.head_sha, method="merge", message="")
    assert "no merge request 1" in told.reason


async def test_a_role_that_may_not_merge_is_told_with_what_to_do(world: GitLabWorld) -> None:
    pull = await opened(world)
    world.served.may_merge = False
    result = await world.forge.merge(pull, sha=pull.head_sha, method="merge", message="")
    assert not result.merged
    assert "role" in result.reason


@pytest.mark.parametrize("status", [403, 405, 406, 422])
async def test_a_refusal_without_a_known_cause_is_told_as_it_is(
    world: GitLabWorld, status: int
) -> None:
    pull = await opened(world)
    world.server.route("PUT", f"{AT}/merge_requests/1/merge", fails(status, "Not like this"))
    result = await world.forge.merge(pull, sha=pull.head_sha, method="merge", message="")
    assert not result.merged
    assert "Not like this" in result.reason


async def test_trouble_of_the_server_while_merging_is_no_refusal(world: GitLabWorld) -> None:
    pull = await opened(world)
    world.server.route("PUT", f"{AT}/merge_requests/1/merge", fails(502))
    with pytest.raises(UnreachableError):
        await world.forge.merge(pull, sha=pull.head_sha, method="merge", message="")


async def test_while_gitlab_never_finds_out_the_server_decides(world: GitLabWorld) -> None:
    pull = await opened(world)
    world.served.merges[1].says = "checking"
    result = await world.forge.merge(pull, sha=pull.head_sha, method="merge", message="")
    assert not result.merged
    assert "405" in result.reason
    assert world.server.count("GET", f"{AT}/merge_requests/1") >= 5
