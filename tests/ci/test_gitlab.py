"""The GitLab forge against a served GitLab over real git: merge requests from birth to merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.checks import CheckState
from ci.errors import (
    ForbiddenError,
    GarbledError,
    MissingError,
    RefusedError,
    UnauthorizedError,
)
from ci.interface import PullRequestState
from tests.ci.forge_server import answers, fails, in_turn
from tests.ci.gitlab_world import gitlab_world
from tests.ci.served_git import BASE
from tests.ci.served_gitlab_state import REPO

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


async def test_a_merge_request_is_created_with_all_that_was_given(world: GitLabWorld) -> None:
    sha = await world.commit("agent/a")
    pull = await world.forge.create_pull(
        branch="agent/a", base=BASE, title="Do it", body="Why.", labels=("loop", "ready")
    )
    assert (pull.branch, pull.base, pull.head_sha) == ("agent/a", BASE, sha)
    assert (pull.title, pull.body, pull.state) == ("Do it", "Why.", PullRequestState.OPEN)
    assert pull.url == f"{world.server.url}/{REPO}/-/merge_requests/1"
    assert pull.base_sha == await world.forge.head(BASE)
    assert pull.mergeable is None
    assert pull.created_at > 0
    assert pull.ours
    assert world.served.merges[1].labels == ["loop", "ready"]


async def test_the_open_merge_request_of_a_branch_is_adopted(world: GitLabWorld) -> None:
    first = await opened(world)
    again = await world.forge.create_pull(branch="agent/a", base=BASE, title="Other", body="")
    assert (again.number, again.title) == (first.number, "Do it")
    assert world.server.count("POST", f"{AT}/merge_requests") == 1


async def test_one_that_somebody_opened_in_between_is_adopted(world: GitLabWorld) -> None:
    first = await opened(world)
    row = world.served._shown(world.served.merges[1])
    world.server.route("GET", f"{AT}/merge_requests", in_turn(answers([]), answers([row])))
    again = await world.forge.create_pull(branch="agent/a", base=BASE, title="Other", body="")
    assert again.number == first.number
    assert world.server.count("POST", f"{AT}/merge_requests", status=409) == 1


async def test_a_refusal_to_create_is_told_with_the_forges_reason(world: GitLabWorld) -> None:
    await world.commit("agent/a")
    world.server.route(
        "POST", f"{AT}/merge_requests", fails(422, "Branch name is not of the demanded form")
    )
    with pytest.raises(RefusedError, match="not of the demanded form"):
        await world.forge.create_pull(branch="agent/a", base=BASE, title="T", body="")


async def test_after_a_closed_one_a_new_one_is_opened_and_found(world: GitLabWorld) -> None:
    old = await opened(world)
    await world.forge.close_pull(old.number)
    await world.forge.close_pull(old.number)
    closed = await world.forge.find_pull("agent/a")
    assert closed is not None
    assert (closed.number, closed.state) == (old.number, PullRequestState.CLOSED)
    new = await world.forge.create_pull(branch="agent/a", base=BASE, title="Again", body="")
    found = await world.forge.find_pull("agent/a")
    assert found is not None
    assert found.number == new.number > old.number


async def test_branches_of_forks_are_nobodys_merge_request_here(world: GitLabWorld) -> None:
    await opened(world)
    seen = (await world.forge.pull(1), await world.forge.find_pull("agent/a"))
    assert [pull is not None and pull.ours for pull in seen] == [True, True]
    for fork in (77, None):
        world.served.merges[1].source_project = fork
        assert await world.forge.find_pull("agent/a") is None
        assert await world.forge.open_pulls() == ()
        pull = await world.forge.pull(1)
        assert pull is not None
        assert not pull.ours


async def test_what_is_closed_keeps_its_time_whatever_is_written_later(world: GitLabWorld) -> None:
    pull = await opened(world)
    await world.forge.close_pull(pull.number)
    closed = await world.forge.pull(pull.number)
    world.served.merges[1].updated += 1_000
    assert await world.forge.pull(pull.number) == closed


async def test_more_than_one_page_is_read(world: GitLabWorld) -> None:
    await opened(world)
    first = world.served.merges[1]
    for iid in range(2, 252):
        world.served.merges[iid] = type(first)(
            iid, f"b{iid}", BASE, "t", "", [], 1.0, 1, head=first.head, says="checking"
        )
    found = await world.forge.open_pulls()
    assert [pull.number for pull in found] == list(range(251, 0, -1))
    assert world.server.count("GET", f"{AT}/merge_requests") == 4


@pytest.mark.parametrize(
    ("ref", "number"),
    [
        ("3", 3), ("#3", 3), ("!3", 3), (" !3 ", 3), ("", None), ("x3", None), ("3a", None),
        ("PAGE/-/merge_requests/3", 3), ("PAGE/-/merge_requests/3/diffs?tab=1", 3),
        ("PAGE/-/merge_requests/3#note_7", 3), ("PAGE/merge_requests/3", 3),
        ("PAGE/-/issues/3", None), ("PAGE/-/merge_requests/", None),
        ("https://elsewhere.example/team/tools/loops/-/merge_requests/3", None),
        ("PAGEX/-/merge_requests/3", None),
    ],
)  # fmt: skip
async def test_a_number_is_read_from_refs_and_urls_of_this_project_alone(
    world: GitLabWorld, ref: str, number: int | None
) -> None:
    assert world.forge.number_of(ref.replace("PAGE", f"{world.server.url}/{REPO}")) == number


async def test_heads_and_the_default_branch_are_those_of_the_repository(world: GitLabWorld) -> None:
    sha = await world.commit("agent/with a space#1".replace(" ", "-"))
    assert await world.forge.head("agent/with-a-space#1") == sha
    assert await world.forge.head("no/such") is None
    assert await world.forge.default_branch() == BASE


async def test_a_project_that_we_may_not_see_is_no_missing_branch(world: GitLabWorld) -> None:
    stranger = world.new_forge(repo="team/hidden")
    for asking in (stranger.head(BASE), stranger.pull(1), stranger.checks("f" * 40)):
        with pytest.raises(MissingError, match="Project Not Found"):
            await asking
    await stranger.aclose()


async def test_no_such_merge_request_is_none(world: GitLabWorld) -> None:
    assert await world.forge.pull(77) is None
    assert await world.forge.find_pull("agent/none") is None


async def test_a_comment_is_written(world: GitLabWorld) -> None:
    pull = await opened(world)
    await world.forge.comment(pull.number, "Waiting for a person.")
    notes = world.served.merges[1].discussions[0]["notes"]
    assert (notes[0]["body"], notes[0]["author"]["username"]) == ("Waiting for a person.", "agent")


async def test_access_says_who_we_are_and_what_we_may(world: GitLabWorld) -> None:
    access = await world.forge.access()
    assert (access.who, access.can_read, access.can_write, access.problem) == (
        "agent", True, True, "",
    )  # fmt: skip


async def test_access_says_what_is_missing_and_how_to_give_it(world: GitLabWorld) -> None:
    world.served.people[1] = ("agent", 20)
    access = await world.forge.access()
    assert not access.can_write
    assert "Developer" in access.problem
    world.served.people[1] = ("agent", 30)
    world.served.scopes = ["read_api"]
    access = await world.forge.access()
    assert not access.can_write
    assert "scope api (it has read_api)" in access.problem
    wrong, hidden = world.new_forge(WRONG), world.new_forge(repo="team/hidden")
    access = await wrong.access()
    assert not access.can_read
    assert "LOOPWRIGHT_GITLAB_TOKEN" in access.problem
    assert WRONG not in access.problem
    access = await hidden.access()
    assert not access.can_read
    assert "agent cannot see" in access.problem
    await wrong.aclose()
    await hidden.aclose()


async def test_a_token_of_a_job_needs_no_user_and_no_scopes(world: GitLabWorld) -> None:
    world.served.tokens["glcbt-1"] = 1
    for path in ("user", "personal_access_tokens/self"):
        world.server.route("GET", f"/api/v4/{path}", fails(403, "403 Forbidden"))
    forge = world.new_forge("glcbt-1")
    access = await forge.access()
    assert (access.who, access.can_write, access.problem) == ("the token", True, "")
    assert world.server.requests[-1].headers["job-token"] == "glcbt-1"
    await forge.aclose()


async def test_a_wrong_token_and_a_weak_one_are_told_apart(world: GitLabWorld) -> None:
    wrong = world.new_forge(WRONG)
    with pytest.raises(UnauthorizedError, match="LOOPWRIGHT_GITLAB_TOKEN"):
        await wrong.open_pulls()
    await wrong.aclose()
    world.served.scopes = ["read_api"]
    with pytest.raises(ForbiddenError, match="scope api"):
        await world.forge.comment(1, "x")


@pytest.mark.parametrize(
    "row",
    [None, [], "text", 7, {}, {"iid": "1"}, {"iid": 1, "sha": ["x"], "source_branch": "b"}],
)
async def test_a_merge_request_of_another_form_is_garbled_and_no_crash(
    world: GitLabWorld, row: object
) -> None:
    world.server.route("GET", f"{AT}/merge_requests/1", answers(row))
    with pytest.raises(GarbledError):
        await world.forge.pull(1)


async def test_the_budget_is_what_the_rate_headers_say(world: GitLabWorld) -> None:
    await world.forge.default_branch()
    assert world.forge.budget.limit == 2000
    assert world.forge.place == f"{world.server.url.removeprefix('http://')}/{REPO}"


async def test_what_did_not_change_costs_nothing(world: GitLabWorld) -> None:
    sha = await world.commit("agent/a")
    first = await world.forge.checks(sha)
    spent = world.forge.budget.spent
    assert await world.forge.checks(sha) == first
    assert first[0].state is CheckState.PASSED
    assert world.forge.budget.spent == spent
