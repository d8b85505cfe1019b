"""The GitLab forge against a served GitLab over real git: merge requests from birth to merge."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ci.events import CheckState
from ci.forge.protocol import BranchRules, NewPull
from tests.ci.forge_server import fails
from tests.ci.gitlab.served_gitlab_state import REPO
from tests.ci.served_git import BASE

if TYPE_CHECKING:
    from tests.ci.gitlab.gitlab_world import GitLabWorld


async def test_labels_are_put_on(world: GitLabWorld) -> None:
    await world.commit("agent/a")
    pull = await world.forge.create_pull(
        NewPull(branch="agent/a", base=BASE, title="T", body="", labels=("loop", "ready"))
    )
    assert pull.url == f"{world.server.url}/{REPO}/-/merge_requests/1"
    assert pull.mergeable is None
    assert world.served.pulls[1].labels == ["loop", "ready"]


async def test_more_than_one_page_is_read(world: GitLabWorld) -> None:
    await world.opened()
    first = world.served.pulls[1]
    for iid in range(2, 252):
        world.served.pulls[iid] = replace(first, number=iid, branch=f"b{iid}", says="checking")
    found = await world.forge.open_pulls()
    assert [pull.number for pull in found] == list(range(251, 0, -1))
    assert world.server.count("GET", world.pulls) == 3


async def test_access_says_what_is_missing_and_how_to_give_it(world: GitLabWorld) -> None:
    world.served.people[1] = ("agent", 20)
    access = await world.forge.access()
    assert not access.can_write
    assert "Developer" in access.problem
    world.served.people[1] = ("agent", 30)
    world.served.scopes = {"read_api"}
    access = await world.forge.access()
    assert not access.can_write
    assert "scope api (it has read_api)" in access.problem


async def test_a_token_of_a_job_needs_no_user_and_no_scopes(world: GitLabWorld) -> None:
    world.served.tokens["glcbt-1"] = 1
    for path in ("user", "personal_access_tokens/self"):
        world.server.route("GET", f"/api/v4/{path}", fails(403, "403 Forbidden"))
    forge = world.new_forge("glcbt-1")
    access = await forge.access()
    assert (access.who, access.can_write, access.problem) == ("the token", True, "")
    assert world.server.requests[-1].headers["job-token"] == "glcbt-1"
    await forge.aclose()


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


async def test_a_project_that_merges_in_a_line_demands_the_newest_commit(
    world: GitLabWorld,
) -> None:
    assert await world.forge.branch_rules(BASE) == BranchRules()
    world.served.merge_method = "ff"
    assert (await world.forge.branch_rules(BASE)).up_to_date
