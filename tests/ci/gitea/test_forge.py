"""The Gitea forge against a served Gitea over real git: pull requests, access and odd answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.errors import RefusedError
from ci.events import Check, CheckState
from ci.forge.protocol import NewPull
from ci.gitea.forge import SETTLES
from ci.interface import PullRequestState
from ci.issues import IssueReference
from tests.ci.forge_server import answers, fails
from tests.ci.gitea.served_gitea_state import REPO
from tests.ci.served_git import BASE

if TYPE_CHECKING:
    from tests.ci.gitea.gitea_world import GiteaWorld

PASSED, FAILED, PENDING = CheckState.PASSED, CheckState.FAILED, CheckState.PENDING


async def test_labels_are_put_on_and_made_where_there_are_none(world: GiteaWorld) -> None:
    await world.commit("agent/a")
    pull = await world.forge.create_pull(
        NewPull(branch="agent/a", base=BASE, title="T", body="", labels=("bug", "loop", "loop"))
    )
    assert pull.url == f"{world.server.url}/{REPO}/pulls/1"
    assert pull.mergeable is None
    named = {row["id"]: row["name"] for row in world.served.labels}
    assert {named[key] for key in world.served.pulls[1].labels} == {"bug", "loop"}


async def test_labels_of_the_organisation_are_used_and_not_made_once_more(
    world: GiteaWorld,
) -> None:
    number = await world.new_issue("area/api")
    areas = [{"id": 7 + at, "name": f"area/{name}", "exclusive": True}
             for at, name in enumerate(("api", "web"))]  # fmt: skip
    world.served.org_labels = [*areas, {"id": 9, "name": "in progress"}]
    issues, which = world.forge.issues, IssueReference(number)
    assert issues is not None
    await issues.add_labels(which, ["in progress", "bug"])
    with pytest.raises(RefusedError, match="would replace area/api"):
        await issues.add_labels(which, ["area/web"])
    assert (await world.issue(number)).labels == ("area/api", "bug", "in progress")
    assert [row["name"] for row in world.served.labels] == ["bug"]
    await issues.remove_label(which, "in progress")
    assert (await world.issue(number)).labels == ("area/api", "bug")
    await world.commit("agent/a")
    new = NewPull(branch="agent/a", base=BASE, title="T", labels=("bug", "in progress"))
    await world.forge.create_pull(new)
    assert world.served.pulls[1].labels == [1, 9]


async def test_where_the_organisation_is_not_told_its_labels_are_made(world: GiteaWorld) -> None:
    number = await world.new_issue()
    world.served.org_labels = None
    assert world.forge.issues is not None
    await world.forge.issues.add_labels(IssueReference(number), ["in progress"])
    assert (await world.issue(number)).labels == ("in progress",)


async def test_labels_that_may_not_be_made_hold_nothing_up(world: GiteaWorld) -> None:
    await world.commit("agent/a")
    world.server.route("POST", f"{world.at}/labels", fails(403))
    pull = await world.forge.create_pull(
        NewPull(branch="agent/a", base=BASE, title="T", body="", labels=("new",))
    )
    assert (pull.number, world.served.pulls[1].labels) == (1, [])


async def test_closing_what_is_merged_changes_nothing(world: GiteaWorld) -> None:
    pull = await world.opened()
    await world.merge(pull.number)
    await world.forge.close_pull(pull.number)
    assert (await world.pull(pull.number)).state is PullRequestState.MERGED


async def test_a_merged_pull_request_keeps_its_branch_when_that_is_gone(world: GiteaWorld) -> None:
    pull = await world.opened()
    made = await world.merge(pull.number)
    world.origin.delete("agent/a")
    found = await world.forge.find_pull("agent/a")
    assert found is not None
    assert (found.branch, found.state) == ("agent/a", PullRequestState.MERGED)
    assert found.ours
    assert found.merge_commit == made


async def test_access_says_what_is_missing(world: GiteaWorld) -> None:
    world.served.people["agent"] = "read"
    access = await world.forge.access()
    assert not access.can_write
    assert "may not write" in access.problem
    world.server.route("GET", "/api/v1/user", fails(403))
    assert (await world.forge.access()).who == "the token"


async def test_odd_statuses_are_no_crash(world: GiteaWorld) -> None:
    sha = await world.commit("agent/a")
    odd = answers([None, 7, "x", {}, {"id": "5", "context": 3, "status": ["success"]}])
    world.server.route("GET", f"{world.at}/commits/{sha}/statuses", odd)
    found = await world.forge.checks(sha)
    assert [(check.name, check.state) for check in found] == [("default", PENDING)]


async def test_the_server_sets_no_limits(world: GiteaWorld) -> None:
    await world.forge.default_branch()
    assert (world.forge.budget.limit, world.forge.budget.remaining) == (None, None)
    assert world.forge.place == f"{world.server.url.removeprefix('http://')}/{REPO}"
    assert not await world.forge.rerun("f" * 40, [Check(name="x", state=FAILED)])


async def test_the_list_tells_of_a_conflict_once_the_server_has_had_time_to_find_out(
    world: GiteaWorld,
) -> None:
    first, second = await world.opened("agent/a"), await world.opened("agent/b", shared="b")
    await world.forge.open_pulls()
    world.clock.by += SETTLES
    await world.merge(first.number)
    shown = [(await world.forge.open_pulls())[0].mergeable]
    world.clock.by += SETTLES
    shown.append((await world.forge.open_pulls())[0].mergeable)
    assert shown == [None, False]
    assert (await world.pull(second.number)).mergeable is False
