"""What GitLab's pipelines, jobs and statuses mean for a commit, over a served GitLab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.events import Check, CheckState
from ci.forge.protocol import NewPull
from ci.gitlab.pipelines import (
    STATES,
    Pipelines,
    check_of,
    checks_of,
    clean_trace,
    current_pipelines,
)
from ci.gitlab.project import MergeSettings
from tests.ci.forge_server import answers, fails
from tests.ci.served_git import BASE

if TYPE_CHECKING:
    from tests.ci.gitlab.gitlab_world import GitLabWorld

PASSED, FAILED, PENDING = CheckState.PASSED, CheckState.FAILED, CheckState.PENDING
NO_DEMANDS = MergeSettings()


async def states(world: GitLabWorld, sha: str) -> dict[str, CheckState]:
    return {check.name: check.state for check in await world.forge.checks(sha)}


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("success", PASSED), ("failed", FAILED), ("canceled", FAILED), ("skipped", None),
        ("manual", None), ("created", PENDING), ("waiting_for_resource", PENDING),
        ("preparing", PENDING), ("pending", PENDING), ("running", PENDING),
        ("scheduled", PENDING), ("canceling", PENDING), ("waiting_for_callback", PENDING),
        ("a_word_of_tomorrow", PENDING), ("", PENDING),
    ],
)  # fmt: skip
def test_each_status_has_one_meaning(word: str, state: CheckState | None) -> None:
    check = check_of({"id": 7, "name": "unit", "status": word}, NO_DEMANDS, job=True)
    assert (None if check is None else (check.state, check.how, check.ref)) == (
        None if state is None else (state, word, "job:7")
    )
    assert word not in STATES or STATES[word] is state


@pytest.mark.parametrize(
    ("word", "state", "counts"),
    [
        ("failed", FAILED, False), ("canceled", FAILED, False), ("running", PENDING, False),
        ("success", PASSED, True),
    ],
)  # fmt: skip
def test_a_job_that_may_fail_is_optional_until_it_has_passed(
    *, word: str, state: CheckState, counts: bool
) -> None:
    row = {"id": 7, "name": "lint", "status": word, "allow_failure": True}
    check = check_of(row, NO_DEMANDS, job=True)
    assert check is not None
    assert (check.state, check.how, check.counts) == (state, word, counts)


async def test_statuses_from_outside_count_beside_the_jobs(world: GitLabWorld) -> None:
    sha = await world.commit("agent/a")
    world.served.status(sha, "jenkins", "failed")
    world.served.status(sha, "coverage", "failed", allow_failure=True)
    found = {check.name: check for check in await world.forge.checks(sha)}
    assert {name: check.state for name, check in found.items()} == {
        "unit": PASSED,
        "jenkins": FAILED,
        "coverage": FAILED,
    }
    assert not found["coverage"].counts
    assert found["jenkins"].url == "https://ci.example/jenkins"
    assert found["jenkins"].summary == "jenkins says failed"
    assert await world.forge.explain(sha, found["jenkins"]) == found["jenkins"]
    world.served.status(sha, "jenkins", "success")
    assert (await states(world, sha))["jenkins"] is PASSED


async def test_an_older_pipeline_of_the_same_branch_says_nothing_any_more(
    world: GitLabWorld,
) -> None:
    sha = await world.commit("agent/a", outcome="red")
    old = world.served.pipelines[0]
    world.served.job(old, "gone", "failed")
    world.served.run(sha, "agent/a", "green", source="web")
    assert await states(world, sha) == {"unit": PASSED}


async def test_the_pipelines_of_every_branch_count(world: GitLabWorld) -> None:
    sha = await world.commit("agent/a", outcome="red")
    world.served.run(sha, "release", "green")
    world.served.run(sha, "release", "green", name="review")
    assert await states(world, sha) == {"unit": FAILED, "review": PASSED}


async def test_manual_jobs_hold_nothing_up_and_a_blocked_pipeline_says_so(
    world: GitLabWorld,
) -> None:
    sha = await world.commit("agent/a", outcome="")
    pipeline = world.served.pipeline(sha, "agent/a", "success")
    world.served.job(pipeline, "unit", "success")
    world.served.job(pipeline, "deploy", "manual", allow_failure=True)
    world.served.job(pipeline, "cleanup", "skipped")
    assert await states(world, sha) == {"unit": PASSED}
    pipeline["status"] = "manual"
    world.served.job(pipeline, "after", "created")
    found = {check.name: check for check in await world.forge.checks(sha)}
    assert found["after"].state is PENDING
    assert "manual job" in found["after"].summary


async def test_nothing_but_skipped_and_manual_jobs_is_no_check(world: GitLabWorld) -> None:
    sha = await world.commit("agent/a", outcome="")
    pipeline = world.served.pipeline(sha, "agent/a", "skipped")
    world.served.job(pipeline, "unit", "skipped")
    world.served.job(pipeline, "deploy", "manual")
    assert await states(world, sha) == {}


async def test_a_pipeline_tells_what_none_of_its_jobs_tells(world: GitLabWorld) -> None:
    sha = await world.commit("agent/a", outcome="")
    pipeline = world.served.pipeline(sha, "agent/a", "created", yaml_errors="jobs:unit is odd")
    assert await states(world, sha) == {"pipeline": PENDING}
    world.served.job(pipeline, "unit", "success")
    pipeline["status"] = "failed"
    found = {check.name: check for check in await world.forge.checks(sha)}
    assert {name: check.state for name, check in found.items()} == {
        "unit": PASSED,
        "pipeline": FAILED,
    }
    whole = await world.forge.explain(sha, found["pipeline"])
    assert whole.summary == "jobs:unit is odd"
    assert await world.forge.rerun(sha, [whole])
    world.served.job(pipeline, "deploy", "running")
    assert "pipeline" not in await states(world, sha)


async def test_a_pipeline_on_the_merged_result_is_about_the_head_it_tests(
    world: GitLabWorld,
) -> None:
    sha = await world.commit("agent/a", outcome="", shared="a")
    await world.forge.create_pull(NewPull(branch="agent/a", base=BASE, title="T"))
    made = world.origin.test_merge(BASE, sha)
    ref = "refs/merge-requests/1/merge"
    world.served.run(made, ref, "red", source="merge_request_event")
    assert await states(world, sha) == {"unit": FAILED}
    newer = await world.commit("agent/a", outcome="", shared="b")
    assert await states(world, newer) == {}, "the pipeline is about an older head"
    parents = world.server.count("GET", f"{world.at}/repository/commits/{made}")
    assert await states(world, newer) == {}
    assert world.server.count("GET", f"{world.at}/repository/commits/{made}") == parents == 1


async def test_a_child_of_the_commit_is_no_merge_of_it(world: GitLabWorld) -> None:
    sha = await world.commit("agent/a", outcome="", shared="a")
    await world.forge.create_pull(NewPull(branch="agent/a", base=BASE, title="T"))
    world.served.parents["c" * 40] = [sha]
    world.served.run("c" * 40, "refs/merge-requests/1/merge", "green")
    assert await states(world, sha) == {}


async def test_a_failed_job_is_explained_by_its_stage_and_its_log(world: GitLabWorld) -> None:
    sha = await world.commit("agent/a", outcome="red")
    check = await world.forge.explain(sha, (await world.forge.checks(sha))[0])
    assert check.summary == "stage test, script failure"
    assert "the sum is wrong" in check.excerpt
    assert "section_" not in check.excerpt
    assert "\x1b" not in check.excerpt
    assert "/-/jobs/" in check.url


@pytest.mark.parametrize("status", [403, 404])
async def test_a_log_that_is_gone_leaves_the_reason(world: GitLabWorld, status: int) -> None:
    sha = await world.commit("agent/a", outcome="red")
    (check,) = await world.forge.checks(sha)
    job = check.ref.partition(":")[2]
    world.server.route("GET", f"{world.at}/jobs/{job}/trace", fails(status))
    told = await world.forge.explain(sha, check)
    assert (told.summary, told.excerpt) == ("stage test, script failure", "")


async def test_a_failed_job_is_run_once_more_and_the_new_run_counts(world: GitLabWorld) -> None:
    sha = await world.commit("agent/a", outcome="red")
    failed = await world.forge.checks(sha)
    assert await world.forge.rerun(sha, failed)
    (again,) = await world.forge.checks(sha)
    assert (again.state, again.ref != failed[0].ref) == (PENDING, True)
    await world.release()
    assert await states(world, sha) == {"unit": PASSED}
    assert not await world.forge.rerun(sha, failed), "a job is retried once"
    outside = Check(name="x", state=FAILED, ref="status:1")
    assert not await world.forge.rerun(sha, [outside])


def test_a_retry_that_only_the_statuses_show_yet_is_the_newer_one() -> None:
    pipeline = {"id": 1, "ref": "b", "status": "running"}
    job = {"id": 5, "name": "unit", "status": "failed", "pipeline": {"id": 1}}
    retry = {"id": 9, "name": "unit", "status": "pending", "pipeline_id": 1}
    found = Pipelines(current=[pipeline], jobs=[job], statuses=[retry])
    (check,) = checks_of(found, NO_DEMANDS)
    assert (check.state, check.ref) == (PENDING, "status:9")


def test_without_the_pipeline_of_a_status_a_known_name_is_a_job_told_again() -> None:
    pipeline = {"id": 2, "ref": "b", "status": "success"}
    job = {"id": 5, "name": "unit", "status": "success", "pipeline": {"id": 2}}
    old = {"id": 3, "name": "unit", "status": "failed"}
    other = {"id": 4, "name": "outside", "status": "failed"}
    listed = Pipelines(current=[pipeline], jobs=[job], statuses=[old, other])
    found = checks_of(listed, NO_DEMANDS)
    assert {check.name: check.state for check in found} == {"unit": PASSED, "outside": FAILED}


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("section_start:1700000000:prepare[collapsed=true]\r\x1b[0Kgo\n", "go\n"),
        ("a\nsection_end:1700000000:prepare\r\x1b[0Kb\n", "a\nb\n"),
        ("2024-05-22T12:43:46.962646Z 00O text\n2024-05-22T12:43:47.1Z 01E+more\n", "text\nmore\n"),
        ("a section_start of its own\n", "a section_start of its own\n"),
    ],
)
def test_a_log_loses_what_only_gitlabs_pages_need(raw: str, clean: str) -> None:
    assert clean_trace(raw) == clean


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.text(max_size=4)
    | st.sampled_from(["failed", "success", "created", "manual", "external"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=3,
)  # fmt: skip
row = st.dictionaries(
    st.sampled_from(
        ["id", "name", "status", "pipeline", "pipeline_id", "ref", "source", "allow_failure", "sha"]
    ),
    json_values,
)


@given(st.lists(row, max_size=4), st.lists(row, max_size=4), st.lists(row, max_size=4))
def test_odd_rows_never_raise(
    pipelines: list[dict[str, Any]], jobs: list[dict[str, Any]], statuses: list[dict[str, Any]]
) -> None:
    listed = Pipelines(current=current_pipelines(pipelines), jobs=jobs, statuses=statuses)
    names = [check.name for check in checks_of(listed, NO_DEMANDS)]
    assert len(names) == len(set(names))


async def test_odd_lists_are_no_crash(world: GitLabWorld) -> None:
    sha = await world.commit("agent/a")
    odd = answers([None, 7, "x", {"id": None}, {"sha": sha, "id": "5", "ref": 3}])
    for path in ("pipelines", f"repository/commits/{sha}/statuses", f"repository/commits/{sha}/merge_requests"):  # fmt: skip # noqa: E501  # a list
        world.server.route("GET", f"{world.at}/{path}", odd)
    assert await world.forge.checks(sha) == ()
