"""Which jobs of GitLab count: those of the merge request's pipeline that must not fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ci.events import Check, CheckState
from ci.forge.counting import counting
from ci.forge.merge_rules import Rules
from ci.forge.protocol import BranchRules
from tests.ci.forge_server import answers, fails
from tests.ci.served_git import BASE

if TYPE_CHECKING:
    from tests.ci.gitlab.gitlab_world import GitLabWorld

PASSED, FAILED, PENDING = CheckState.PASSED, CheckState.FAILED, CheckState.PENDING
HEAD = "refs/merge-requests/1/head"
EVENT = "merge_request_event"


async def found(world: GitLabWorld, sha: str, **rules: Any) -> dict[str, tuple[CheckState, bool]]:
    """Return the state of each check, and whether it counts by these settings."""
    checks = counting(await world.forge.checks(sha), BranchRules(), Rules(**rules), awaits=False)
    return {check.name: (check.state, check.counts) for check in checks}


async def check(world: GitLabWorld, sha: str, name: str) -> Check:
    (one,) = [each for each in await world.forge.checks(sha) if each.name == name]
    return one


# --- jobs that may fail ---------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["failed", "running", "canceled"])
async def test_a_job_that_may_fail_is_told_and_neither_wakes_nor_blocks(
    world: GitLabWorld, status: str
) -> None:
    sha = await world.commit("agent/a")
    world.served.job(world.served.pipelines[0], "lint", status, allow_failure=True)
    state = PENDING if status == "running" else FAILED
    assert await found(world, sha) == {"unit": (PASSED, True), "lint": (state, False)}
    told = await check(world, sha, "lint")
    assert "it may fail" in told.summary


async def test_a_job_that_may_fail_counts_where_it_is_named(world: GitLabWorld) -> None:
    sha = await world.commit("agent/a")
    world.served.job(world.served.pipelines[0], "lint", "failed", allow_failure=True)
    assert (await found(world, sha, required_checks=("li*",)))["lint"] == (FAILED, True)
    assert (await found(world, sha, required_checks=("*",)))["lint"] == (FAILED, False)
    named = await found(world, sha, required_checks=("lint",), ignore_checks=("lint",))
    assert named["lint"] == (FAILED, False)


async def test_a_pipeline_of_nothing_but_optional_jobs_counts_as_a_whole(
    world: GitLabWorld,
) -> None:
    sha = await world.commit("agent/a", outcome="")
    pipeline = world.served.pipeline(sha, "agent/a", "running")
    world.served.job(pipeline, "lint", "running", allow_failure=True)
    assert await found(world, sha) == {"lint": (PENDING, False)}
    world.served.jobs[-1]["status"], pipeline["status"] = "failed", "success"
    assert await found(world, sha) == {"lint": (FAILED, False), "pipeline": (PASSED, True)}


# --- which pipeline -------------------------------------------------------------------------------


async def test_the_pipeline_of_the_merge_request_counts_and_not_that_of_its_branch(
    world: GitLabWorld,
) -> None:
    sha = await world.commit("agent/a", outcome="red")
    world.served.job(world.served.pipelines[0], "e2e", "failed")
    world.served.run(sha, HEAD, "green", source=EVENT)
    assert await found(world, sha) == {"unit": (PASSED, True), "e2e": (FAILED, False)}
    assert (await found(world, sha, required_checks=("e2e",)))["e2e"] == (FAILED, True)


async def test_of_the_pipelines_of_a_merge_request_the_newest_counts(world: GitLabWorld) -> None:
    pull = await world.opened()
    world.served.run(pull.head_sha, HEAD, "red", source=EVENT)
    made = world.origin.test_merge(BASE, pull.head_sha)
    world.served.run(made, "refs/merge-requests/1/merge", "green", source=EVENT)
    assert (await found(world, pull.head_sha))["unit"] == (PASSED, True)


# --- skipped and manual ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("must_pass", "skipped", "says"),
    [(True, True, {"pipeline": (PASSED, True)}), (True, False, {}), (False, True, {})],
)
async def test_a_skipped_pipeline_is_enough_only_where_the_project_says_so(
    world: GitLabWorld, *, must_pass: bool, skipped: bool, says: dict[str, tuple[CheckState, bool]]
) -> None:
    world.served.pipelines_must_pass = must_pass
    world.served.settings["allow_merge_on_skipped_pipeline"] = skipped
    sha = await world.commit("agent/a", outcome="")
    world.served.pipeline(sha, "agent/a", "skipped")
    assert await found(world, sha) == says


@pytest.mark.parametrize("must_pass", [True, False])
async def test_a_manual_job_that_holds_up_its_pipeline_counts_where_that_must_pass(
    world: GitLabWorld, *, must_pass: bool
) -> None:
    world.served.pipelines_must_pass = must_pass
    sha = await world.commit("agent/a")
    pipeline = world.served.pipelines[0]
    world.served.job(pipeline, "docs", "manual", allow_failure=True)
    world.served.job(pipeline, "deploy", "manual")
    pipeline["status"] = "manual"
    assert await found(world, sha) == {"unit": (PASSED, True), "deploy": (PENDING, must_pass)}
    assert "waits for somebody" in (await check(world, sha, "deploy")).summary


# --- child pipelines ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("depends", "state"), [(True, FAILED), (False, PASSED)], ids=["depends", "does-not"]
)
async def test_a_child_pipeline_counts_by_the_job_that_started_it(
    world: GitLabWorld, *, depends: bool, state: CheckState
) -> None:
    sha = await world.commit("agent/a")
    world.served.child(world.served.pipelines[0], "services", "failed", depends=depends)
    world.served.pipelines[0]["status"] = "failed" if depends else "success"
    assert await found(world, sha) == {"unit": (PASSED, True), "services": (state, True)}


async def test_the_failed_job_of_a_child_pipeline_is_told_with_its_log(world: GitLabWorld) -> None:
    sha = await world.commit("agent/a")
    parent = world.served.pipelines[0]
    child = world.served.child(parent, "services", "failed")
    told = await world.forge.explain(sha, await check(world, sha, "services"))
    failed = "services inside of its child pipeline failed: stage test, script failure"
    assert told.summary == failed
    assert "the sum is wrong" in told.excerpt
    assert await world.forge.rerun(sha, [told])
    assert world.server.count("POST", f"{world.at}/pipelines/{child['id']}/retry") == 0
    # Its reference is that of the project by number, as another project may hold the child.
    assert world.server.count("POST", f"/api/v4/projects/5/pipelines/{child['id']}/retry") == 1


async def test_the_failed_job_of_a_grandchild_is_found(world: GitLabWorld) -> None:
    sha = await world.commit("agent/a")
    child = world.served.child(world.served.pipelines[0], "services", "failed")
    world.served.jobs[-1]["status"] = "success"
    world.served.child(child, "deeper", "failed")
    told = await world.forge.explain(sha, await check(world, sha, "services"))
    assert told.summary.startswith("deeper inside of its child pipeline failed")


async def test_a_child_that_we_may_not_see_or_that_never_was_is_said(world: GitLabWorld) -> None:
    sha = await world.commit("agent/a")
    world.served.child(world.served.pipelines[0], "services", "failed")
    unseen = await check(world, sha, "services")
    child = world.served.bridges[0]["downstream_pipeline"]["id"]
    world.server.route("GET", f"/api/v4/projects/5/pipelines/{child}/jobs", fails(404))
    assert (await world.forge.explain(sha, unseen)).summary == "its child pipeline failed"
    world.served.bridges[0]["downstream_pipeline"] = None
    never = await check(world, sha, "services")
    assert "could not be created" in (await world.forge.explain(sha, never)).summary
    assert not await world.forge.rerun(sha, [never])


async def test_a_pipeline_without_children_is_asked_for_them_once(world: GitLabWorld) -> None:
    sha = await world.commit("agent/a", outcome="held")
    for _ in range(3):
        await world.forge.checks(sha)
    path = f"{world.at}/pipelines/{world.served.pipelines[0]['id']}/bridges"
    assert world.server.count("GET", path) == 1


# --- external status checks -----------------------------------------------------------------------


def outside(status: str) -> dict[str, Any]:
    url = "https://qa.example/"
    return {"id": 9, "name": "QA", "external_url": url, "status": status}


@pytest.mark.parametrize("must_pass", [True, False])
@pytest.mark.parametrize(
    ("status", "state"), [("passed", PASSED), ("failed", FAILED), ("pending", PENDING)]
)
async def test_an_external_status_check_counts_where_all_must_pass(
    world: GitLabWorld, *, must_pass: bool, status: str, state: CheckState
) -> None:
    world.served.settings["only_allow_merge_if_all_status_checks_passed"] = must_pass
    world.served.status_checks = [outside(status)]
    pull = await world.opened()
    says = await found(world, pull.head_sha)
    assert says == {"unit": (PASSED, True), "QA": (state, must_pass)}


async def test_a_failed_external_status_check_is_asked_for_again(world: GitLabWorld) -> None:
    world.served.status_checks = [outside("failed")]
    pull = await world.opened()
    failed = await check(world, pull.head_sha, "QA")
    assert await world.forge.rerun(pull.head_sha, [failed])
    assert (await check(world, pull.head_sha, "QA")).state is PENDING


async def test_a_merge_request_into_a_branch_without_status_checks_hides_those_of_no_other(
    world: GitLabWorld,
) -> None:
    world.served.status_checks = [outside("failed")]
    checked, other = await world.opened(), await world.opened("agent/b")
    world.server.route("GET", f"{world.pulls}/2/status_checks", answers([]))
    await world.forge.checks(other.head_sha)
    assert (await found(world, checked.head_sha))["QA"] == (FAILED, False)
    await world.forge.checks(other.head_sha)
    assert world.server.count("GET", f"{world.pulls}/2/status_checks") == 1


async def test_an_edition_without_external_status_checks_is_asked_rarely(
    world: GitLabWorld,
) -> None:
    pull = await world.opened()
    path = f"{world.pulls}/1/status_checks"
    for _ in range(3):
        await world.forge.checks(pull.head_sha)
    assert world.server.count("GET", path) == 1
    world.clock.by += 700
    await world.forge.checks(pull.head_sha)
    assert world.server.count("GET", path) == 2
