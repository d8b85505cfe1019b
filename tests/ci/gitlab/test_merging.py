"""Merging in GitLab, and each way of being refused, over a served GitLab and real git."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ci.forge_server import fails
from tests.ci.served_git import BASE

if TYPE_CHECKING:
    from tests.ci.gitlab.gitlab_world import GitLabWorld


async def test_rebase_is_left_to_projects_that_merge_so(world: GitLabWorld) -> None:
    pull = await world.opened()
    refused = await world.try_merge(pull, "rebase")
    assert not refused.merged
    assert "fast-forward" in refused.reason
    world.served.merge_method = "ff"
    result = await world.try_merge(pull, "rebase")
    assert (result.merged, result.commit) == (True, pull.head_sha)


async def test_a_fast_forward_that_is_behind_says_that_it_must_be_rebased(
    world: GitLabWorld,
) -> None:
    pull = await world.opened(shared=None)
    world.served.merge_method = "ff"
    await world.commit(BASE, shared="moved")
    result = await world.try_merge(pull)
    assert "rebased" in result.reason


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
    pull = await world.opened()
    world.served.pulls[1].says = word
    result = await world.try_merge(pull)
    assert not result.merged
    assert reason in result.reason
    assert world.server.count("PUT", f"{world.pulls}/1/merge") == 0


async def test_one_that_gitlab_merges_by_itself_is_left_to_it(world: GitLabWorld) -> None:
    pull = await world.opened()
    world.served.pulls[1].auto = True
    assert "by itself" in (await world.try_merge(pull)).reason
    seen = await world.pull(1)
    assert (seen.queued, "by GitLab itself" in seen.hindrance) == (False, True), "no train is there"


async def test_a_role_that_may_not_merge_is_told_with_what_to_do(world: GitLabWorld) -> None:
    pull = await world.opened()
    world.served.may_merge = False
    result = await world.try_merge(pull)
    assert not result.merged
    assert "role" in result.reason


@pytest.mark.parametrize("status", [403, 405, 406, 422])
async def test_a_refusal_without_a_known_cause_is_told_as_it_is(
    world: GitLabWorld, status: int
) -> None:
    pull = await world.opened()
    world.server.route("PUT", f"{world.pulls}/1/merge", fails(status, "Not like this"))
    result = await world.try_merge(pull)
    assert not result.merged
    assert "Not like this" in result.reason


async def test_while_gitlab_never_finds_out_the_server_decides(world: GitLabWorld) -> None:
    pull = await world.opened()
    world.served.pulls[1].says = "checking"
    result = await world.try_merge(pull)
    assert not result.merged
    assert "405" in result.reason
    assert world.server.count("GET", f"{world.pulls}/1") >= 5
