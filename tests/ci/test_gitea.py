"""The Gitea forge against a served Gitea over real git: pull requests, access and odd answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.checks import Check, CheckState
from ci.errors import (
    ForbiddenError,
    GarbledError,
    MissingError,
    RefusedError,
    UnauthorizedError,
)
from ci.interface import PullRequestState
from tests.ci.forge_server import answers, fails, in_turn
from tests.ci.gitea_world import gitea_world
from tests.ci.served_git import BASE
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


async def test_a_pull_request_is_created_with_all_that_was_given(world: GiteaWorld) -> None:
    sha = await world.commit("agent/a")
    pull = await world.forge.create_pull(
        branch="agent/a", base=BASE, title="Do it", body="Why.", labels=("bug", "loop", "loop")
    )
    assert (pull.branch, pull.base, pull.head_sha) == ("agent/a", BASE, sha)
    assert (pull.title, pull.body, pull.state) == ("Do it", "Why.", PullRequestState.OPEN)
    assert pull.url == f"{world.server.url}/{REPO}/pulls/1"
    assert pull.base_sha == await world.forge.head(BASE)
    assert pull.mergeable is None
    assert pull.ours
    named = {row["id"]: row["name"] for row in world.served.labels}
    assert {named[key] for key in world.served.pulls[1].labels} == {"bug", "loop"}


async def test_labels_that_may_not_be_made_hold_nothing_up(world: GiteaWorld) -> None:
    await world.commit("agent/a")
    world.server.route("POST", f"{AT}/labels", fails(403))
    pull = await world.forge.create_pull(
        branch="agent/a", base=BASE, title="T", body="", labels=("new",)
    )
    assert (pull.number, world.served.pulls[1].labels) == (1, [])


async def test_the_open_pull_request_of_a_branch_is_adopted(world: GiteaWorld) -> None:
    first = await opened(world)
    again = await world.forge.create_pull(branch="agent/a", base=BASE, title="Other", body="")
    assert (again.number, again.title) == (first.number, "Do it")
    assert world.server.count("POST", f"{AT}/pulls") == 1


async def test_one_that_somebody_opened_in_between_is_adopted(world: GiteaWorld) -> None:
    first = await opened(world)
    row = world.served._shown(world.served.pulls[1])
    # Looked for among the open ones, then the closed ones, then the open ones again.
    turns = in_turn(answers([]), answers([]), answers([row]))
    world.server.route("GET", f"{AT}/pulls", turns)
    again = await world.forge.create_pull(branch="agent/a", base=BASE, title="Other", body="")
    assert again.number == first.number
    assert world.server.count("POST", f"{AT}/pulls", status=409) == 1


async def test_a_refusal_to_create_is_told_with_the_servers_reason(world: GiteaWorld) -> None:
    await world.commit("agent/a")
    world.server.route("POST", f"{AT}/pulls", fails(422, "title is of no form that we like"))
    with pytest.raises(RefusedError, match="no form that we like"):
        await world.forge.create_pull(branch="agent/a", base=BASE, title="T", body="")


async def test_after_a_closed_one_a_new_one_is_opened_and_found(world: GiteaWorld) -> None:
    old = await opened(world)
    await world.forge.close_pull(old.number)
    await world.forge.close_pull(old.number)
    closed = await world.forge.find_pull("agent/a")
    assert closed is not None
    assert (closed.number, closed.state) == (old.number, PullRequestState.CLOSED)
    world.served.pulls[1].updated += 1_000
    assert await world.forge.find_pull("agent/a") == closed
    new = await world.forge.create_pull(branch="agent/a", base=BASE, title="Again", body="")
    found = await world.forge.find_pull("agent/a")
    assert found is not None
    assert found.number == new.number > old.number


async def test_closing_what_is_merged_changes_nothing(world: GiteaWorld) -> None:
    pull = await opened(world)
    await world.merge(pull.number)
    await world.forge.close_pull(pull.number)
    seen = await world.forge.pull(pull.number)
    assert seen is not None
    assert seen.state is PullRequestState.MERGED


async def test_a_merged_pull_request_keeps_its_branch_when_that_is_gone(world: GiteaWorld) -> None:
    pull = await opened(world)
    made = await world.merge(pull.number)
    world.origin.delete("agent/a")
    found = await world.forge.find_pull("agent/a")
    assert found is not None
    assert (found.branch, found.state) == ("agent/a", PullRequestState.MERGED)
    assert found.ours
    assert found.merge_commit == made


async def test_branches_of_forks_are_nobodys_pull_request_here(world: GiteaWorld) -> None:
    await opened(world)
    seen = (await world.forge.pull(1), await world.forge.find_pull("agent/a"))
    assert [pull is not None and pull.ours for pull in seen] == [True, True]
    for fork in (77, -1, 0):
        world.served.pulls[1].head_repo = fork
        assert await world.forge.find_pull("agent/a") is None
        assert await world.forge.open_pulls() == ()
        pull = await world.forge.pull(1)
        assert pull is not None
        assert not pull.ours


async def test_open_pull_requests_come_the_newest_first(world: GiteaWorld) -> None:
    await opened(world, "agent/a")
    await opened(world, "agent/b")
    assert [pull.number for pull in await world.forge.open_pulls()] == [2, 1]


@pytest.mark.parametrize(
    ("ref", "number"),
    [
        ("3", 3), ("#3", 3), ("!3", 3), ("", None), ("x3", None), ("PAGE/pulls/3", 3),
        ("PAGE/pulls/3/files?x=1", 3), ("PAGE/pulls/3#issuecomment-9", 3), ("PAGE/issues/3", None),
        ("PAGE/pulls/", None), ("https://elsewhere.example/team/loops/pulls/3", None),
    ],
)  # fmt: skip
async def test_a_number_is_read_from_refs_and_urls_of_this_repository_alone(
    world: GiteaWorld, ref: str, number: int | None
) -> None:
    assert world.forge.number_of(ref.replace("PAGE", f"{world.server.url}/{REPO}")) == number


async def test_heads_and_the_default_branch_are_those_of_the_repository(world: GiteaWorld) -> None:
    sha = await world.commit("agent/a#1")
    assert await world.forge.head("agent/a#1") == sha
    assert await world.forge.head("no/such") is None
    assert await world.forge.default_branch() == BASE
    assert await world.forge.pull(77) is None


async def test_a_repository_that_we_may_not_see_is_no_missing_branch(world: GiteaWorld) -> None:
    stranger = world.new_forge(repo="team/hidden")
    for asking in (stranger.head(BASE), stranger.pull(1), stranger.checks("f" * 40)):
        with pytest.raises(MissingError):
            await asking
    await stranger.aclose()


async def test_a_comment_is_written(world: GiteaWorld) -> None:
    pull = await opened(world)
    await world.forge.comment(pull.number, "Waiting for a person.")
    (said,) = world.served.pulls[1].comments
    assert (said["body"], said["user"]["login"]) == ("Waiting for a person.", "agent")


async def test_access_says_who_we_are_and_what_is_missing(world: GiteaWorld) -> None:
    access = await world.forge.access()
    assert (access.who, access.can_read, access.can_write, access.problem) == (
        "agent", True, True, "",
    )  # fmt: skip
    world.served.people["agent"] = "read"
    access = await world.forge.access()
    assert not access.can_write
    assert "may not write" in access.problem
    wrong, hidden = world.new_forge(WRONG), world.new_forge(repo="team/hidden")
    access = await wrong.access()
    assert not access.can_read
    assert "LOOPWRIGHT_GITEA_TOKEN" in access.problem
    assert WRONG not in access.problem
    assert "agent cannot see" in (await hidden.access()).problem
    world.server.route("GET", "/api/v1/user", fails(403))
    assert (await world.forge.access()).who == "the token"
    await wrong.aclose()
    await hidden.aclose()


async def test_a_wrong_token_and_a_weak_one_are_told_apart(world: GiteaWorld) -> None:
    wrong = world.new_forge(WRONG)
    with pytest.raises(UnauthorizedError, match="LOOPWRIGHT_GITEA_TOKEN"):
        await wrong.open_pulls()
    await wrong.aclose()
    await opened(world)
    world.served.scopes = {"read"}
    with pytest.raises(ForbiddenError, match="write:repository"):
        await world.forge.comment(1, "x")


@pytest.mark.parametrize(
    "row",
    [None, [], "text", 7, {}, {"number": "1"}, {"number": 1, "head": {"sha": 7}, "base": []}],
)
async def test_a_pull_request_of_another_form_is_garbled_and_no_crash(
    world: GiteaWorld, row: object
) -> None:
    world.server.route("GET", f"{AT}/pulls/1", answers(row))
    with pytest.raises(GarbledError):
        await world.forge.pull(1)


async def test_odd_statuses_are_no_crash(world: GiteaWorld) -> None:
    sha = await world.commit("agent/a")
    odd = answers([None, 7, "x", {}, {"id": "5", "context": 3, "status": ["success"]}])
    world.server.route("GET", f"{AT}/commits/{sha}/statuses", odd)
    found = await world.forge.checks(sha)
    assert [(check.name, check.state) for check in found] == [("default", PENDING)]


async def test_the_server_sets_no_limits(world: GiteaWorld) -> None:
    await world.forge.default_branch()
    assert (world.forge.budget.limit, world.forge.budget.remaining) == (None, None)
    assert world.forge.place == f"{world.server.url.removeprefix('http://')}/{REPO}"
    assert not await world.forge.rerun("f" * 40, [Check(name="x", state=FAILED)])
