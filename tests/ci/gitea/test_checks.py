"""What Gitea's statuses and runs mean for a commit, over a served Gitea."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.events import CheckState
from ci.forge.protocol import BranchRules
from tests.ci.forge_server import fails
from tests.ci.gitea.served_gitea_state import REPO

if TYPE_CHECKING:
    from tests.ci.gitea.gitea_world import GiteaWorld

PASSED, FAILED, PENDING = CheckState.PASSED, CheckState.FAILED, CheckState.PENDING


async def test_the_checks_that_a_protected_branch_requires_are_read(world: GiteaWorld) -> None:
    assert await world.forge.branch_rules("main") == BranchRules()
    told = {
        "protected": True, "required_approvals": 2, "enable_status_check": True,
        "status_check_contexts": ["ci/unit", "lint/{a,b}?"], "user_can_merge": False,
    }  # fmt: skip
    world.served.protection["main"] = told
    assert await world.forge.branch_rules("main") == BranchRules(
        required_checks=("ci/unit", "lint/**"), required_approvals=2, may_merge=False
    )
    told["enable_status_check"] = False
    assert (await world.forge.branch_rules("main")).required_checks == ()
    assert await world.forge.branch_rules("gone") == BranchRules()


async def test_the_newest_status_of_each_context_counts(world: GiteaWorld) -> None:
    sha = await world.commit("agent/a")
    world.served.status(sha, "jenkins", "pending")
    world.served.status(sha, "jenkins", "failure")
    world.served.status(sha, "lint", "error")
    world.served.status(sha, "lint", "success")
    found = {check.name: check for check in await world.forge.checks(sha)}
    assert {name: check.state for name, check in found.items()} == {
        "test.yml / unit (push)": PASSED,
        "jenkins": FAILED,
        "lint": PASSED,
    }
    assert (found["jenkins"].how, found["jenkins"].summary) == ("failure", "says failure")
    assert found["jenkins"].url == "https://ci.example/jenkins"


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("success", PASSED), ("warning", PASSED), ("failure", FAILED), ("error", FAILED),
        ("pending", PENDING), ("skipped", None), ("a_word_of_tomorrow", PENDING), ("", PENDING),
    ],
)  # fmt: skip
async def test_each_status_has_one_meaning(
    world: GiteaWorld, word: str, state: CheckState | None
) -> None:
    sha = await world.commit("agent/a", outcome="")
    world.served.status(sha, "x", "failure")
    world.served.status(sha, "x", word)
    states = [(check.state, check.how) for check in await world.forge.checks(sha)]
    assert states == ([] if state is None else [(state, word)])


async def test_many_statuses_are_read_page_by_page(world: GiteaWorld) -> None:
    sha = await world.commit("agent/a", outcome="")
    for number in range(120):
        world.served.status(sha, f"c{number:03}", "success")
    assert len(await world.forge.checks(sha)) == 120
    assert world.server.count("GET", f"{world.at}/commits/{sha}/statuses") == 3


async def test_a_failed_run_is_explained_by_its_step_and_its_log(world: GiteaWorld) -> None:
    sha = await world.commit("agent/a", outcome="red")
    (check,) = await world.forge.checks(sha)
    assert check.url.startswith(f"{world.server.url}/{REPO}/actions/runs/")
    told = await world.forge.explain(sha, check)
    assert told.summary == "failed in Add up"
    assert "the sum is wrong" in told.excerpt


async def test_a_job_is_found_by_its_name_where_pages_are_told_otherwise(world: GiteaWorld) -> None:
    sha = await world.commit("agent/a", outcome="red")
    world.served.jobs[0]["html_url"] = "https://elsewhere.example/1"
    (check,) = await world.forge.checks(sha)
    assert "the sum is wrong" in (await world.forge.explain(sha, check)).excerpt


@pytest.mark.parametrize("path", ["actions/runs", "actions/jobs/102/logs"])
@pytest.mark.parametrize("status", [403, 404, 405])
async def test_servers_that_tell_less_of_their_runs_leave_the_status_as_it_is(
    world: GiteaWorld, path: str, status: int
) -> None:
    sha = await world.commit("agent/a", outcome="red")
    (check,) = await world.forge.checks(sha)
    world.server.route("GET", f"{world.at}/{path}", fails(status))
    assert await world.forge.explain(sha, check) == check


async def test_a_status_from_outside_is_explained_by_itself(world: GiteaWorld) -> None:
    sha = await world.commit("agent/a", outcome="")
    world.served.status(sha, "jenkins", "failure")
    (check,) = await world.forge.checks(sha)
    asked = len(world.server.requests)
    assert await world.forge.explain(sha, check) == check
    assert not await world.forge.rerun(sha, [check])
    assert len(world.server.requests) == asked


async def test_failed_jobs_of_its_own_actions_are_rerun_since_gitea_1_26(world: GiteaWorld) -> None:
    sha = await world.commit("agent/a", outcome="red")
    failed = await world.forge.checks(sha)
    world.served.reruns_jobs = False
    assert not await world.forge.rerun(sha, failed)
    world.served.reruns_jobs = True
    assert await world.forge.rerun(sha, failed)
    (again,) = await world.forge.checks(sha)
    assert (again.name, again.state) == (failed[0].name, PENDING)


async def test_a_status_from_outside_is_not_rerun(world: GiteaWorld) -> None:
    sha = await world.commit("agent/a", outcome="red")
    world.served.status(sha, "ci/outside", "failure")
    assert not await world.forge.rerun(sha, await world.forge.checks(sha))
    assert [each for each in world.server.requests if each.method == "POST"] == []
