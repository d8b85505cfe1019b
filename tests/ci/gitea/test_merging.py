"""Merging in Gitea, and each way of being refused, over a served Gitea and real git."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.events import CheckState
from ci.gitea.forge import SETTLES
from tests.ci.forge_server import answers, fails

if TYPE_CHECKING:
    from tests.ci.gitea.gitea_world import GiteaWorld

PASSED, FAILED, PENDING = CheckState.PASSED, CheckState.FAILED, CheckState.PENDING


async def test_merging_is_tried_again_while_the_server_finds_out(world: GiteaWorld) -> None:
    pull = await world.opened()
    world.served.pulls[1].looked = ("", "")
    world.server.route("GET", f"{world.pulls}/1", answers(world.shown(1)))
    # Looking does not help here: it is the first try to merge that makes the server look.
    result = await world.try_merge(pull)
    assert not result.merged
    assert world.server.count("POST", f"{world.pulls}/1/merge", status=405) == 1
    assert world.server.count("POST", f"{world.pulls}/1/merge", status=200) == 1
    assert await world.merged_text() == "a"


async def test_a_style_that_the_repository_does_not_allow_is_told(world: GiteaWorld) -> None:
    world.served.styles = {"squash"}
    result = await world.try_merge(await world.opened())
    assert not result.merged
    assert "merge style" in result.reason


async def test_a_rebase_moves_the_base_to_the_head(world: GiteaWorld) -> None:
    pull = await world.opened()
    rebased = await world.try_merge(pull, "rebase")
    assert (rebased.merged, rebased.commit) == (True, pull.head_sha)


async def test_a_conflict_is_one_when_the_server_says_so_for_long_enough(world: GiteaWorld) -> None:
    first, second = await world.opened(), await world.opened("agent/b", shared="b")
    await world.merge(first.number)
    result = await world.try_merge(second)
    assert not result.merged
    assert "merge main into agent/b" in result.reason


async def test_not_merging_is_believed_once_the_server_had_time_to_find_out(
    world: GiteaWorld,
) -> None:
    world.clock.ticks = False
    pull = await world.opened()
    world.served.pulls[1].looked = ("", "")
    world.server.route("GET", f"{world.pulls}/1", answers(world.shown(1)))
    for step, mergeable in ((0.0, None), (SETTLES / 2, None), (SETTLES / 2, False)):
        world.clock.by += step
        assert (await world.pull(pull.number)).mergeable is mergeable
    await world.commit("agent/a", shared="newer")
    world.server.route("GET", f"{world.pulls}/1", answers(world.shown(1)))
    seen = await world.pull(pull.number)
    assert seen.mergeable is None, "a new head is looked at anew"


async def test_a_rule_of_the_branch_is_told_as_the_server_words_it(world: GiteaWorld) -> None:
    world.served.refuses_merges = "Does not have enough approvals"
    result = await world.try_merge(await world.opened())
    assert not result.merged
    assert "enough approvals" in result.reason


async def test_a_rule_that_an_older_server_words_as_a_missing_right_is_told_first(
    world: GiteaWorld,
) -> None:
    rule = "Does not have enough approvals"
    world.served.refuses_merges = f"User not allowed to merge PR [reason: {rule}]"
    reason = (await world.try_merge(await world.opened())).reason
    assert f"refused to merge it: {rule}" in reason
    assert "may not merge" not in reason


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
    pull = await world.opened()
    world.server.route("POST", f"{world.pulls}/1/merge", fails(status, words))
    result = await world.try_merge(pull)
    assert not result.merged
    assert reason in result.reason
