"""GitHub as a forge, where emulate is not GitHub enough: served from GitHub's documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ci.errors import ForbiddenError, GarbledError, LimitedError, MissingError, UnreachableError
from ci.events import Check, CheckState
from ci.forge.protocol import BranchRules, NewPull
from ci.github.payloads import pull_of
from tests.ci.forge_server import answers, fails, forge_server, in_turn, moved, text
from tests.ci.github.github_answers import HEAD, LOG, OLD, STEPS, TOLD, pull, run, said, status
from tests.ci.github.github_served import COMMIT, REPO, Served, asked, seen

if TYPE_CHECKING:
    from tests.ci.forge_server import Reply

JOB = Check(name="ci", state=CheckState.FAILED, how="failure", ref="job:5:9", url="https://x")


async def test_check_runs_and_statuses_are_joined(served: Served) -> None:
    served.commit([run("build", 1, conclusion="success")], [status("lint", "failure")])
    assert [(each.name, each.state) for each in await served.forge.checks(HEAD)] == [
        ("build", CheckState.PASSED),
        ("lint", CheckState.FAILED),
    ]


async def test_the_joined_status_of_nothing_is_not_believed_to_be_pending(served: Served) -> None:
    served.commit([run("build", 1, conclusion="success")])
    assert [each.name for each in await served.forge.checks(HEAD)] == ["build"]
    served.commit([])
    assert await served.forge.checks(HEAD) == ()


async def test_all_pages_of_check_runs_are_read_and_only_the_latest_asked_for(
    served: Served,
) -> None:
    served.commit([])
    link = {"link": f'<{served.server.url}{COMMIT}/check-runs?page=2>; rel="next"'}
    served.server.route(
        "GET",
        f"{COMMIT}/check-runs",
        lambda request: (
            answers({"check_runs": [run("b", 2, conclusion="failure")]})
            if request.query.get("page") == "2"
            else answers({"check_runs": [run("a", 1, conclusion="success")]}, headers=link)
        ),
    )
    assert [each.name for each in await served.forge.checks(HEAD)] == ["a", "b"]
    first = asked(served, "GET", f"{COMMIT}/check-runs")[0]
    assert first.query == {"per_page": "100", "filter": "latest"}
    assert first.headers["accept"] == "application/vnd.github+json"
    assert first.headers["x-github-api-version"] == "2022-11-28"


async def test_the_checks_that_rulesets_and_protection_require_are_joined(served: Served) -> None:
    assert await served.forge.branch_rules("trunk") == BranchRules()
    contexts = [{"context": "build", "integration_id": 7}, {"context": "e2e"}]
    strict = {"strict_required_status_checks_policy": True, "required_status_checks": contexts}
    reviews = {"required_approving_review_count": 2}
    served.serve("GET", "/rules/branches/trunk", answers([
        {"type": "required_status_checks", "parameters": strict},
        {"type": "pull_request", "parameters": reviews},
        {"type": "merge_queue", "parameters": {}},
    ]))  # fmt: skip
    classic = {"enforcement_level": "everyone", "contexts": ["lint"], "checks": []}
    served.serve("GET", "/branches/trunk", answers({
        "name": "trunk", "protection": {"enabled": True, "required_status_checks": classic},
    }))  # fmt: skip
    assert await served.forge.branch_rules("trunk") == BranchRules(
        required_checks=("build", "e2e", "lint"),
        required_approvals=2,
        up_to_date=True,
        queue=True,
    )
    classic["enforcement_level"] = "off"
    served.serve("GET", "/branches/trunk", answers({
        "name": "trunk", "protection": {"enabled": True, "required_status_checks": classic},
    }))  # fmt: skip
    assert (await served.forge.branch_rules("trunk")).required_checks == ("build", "e2e")


async def test_all_pages_of_the_rules_of_a_branch_are_read(served: Served) -> None:
    path = "/rules/branches/trunk"
    link = {"link": f'<{served.server.url}{REPO}{path}?page=2>; rel="next"'}
    first, last = [{"type": "deletion"}] * 30, [{"type": "merge_queue"}]
    served.serve(
        "GET",
        path,
        lambda asked: answers(last) if "page" in asked.query else answers(first, headers=link),
    )
    assert (await served.forge.branch_rules("trunk")).queue


@pytest.mark.parametrize(("rollup", "checked"), [({"state": "FAILURE"}, True), (None, False)])
async def test_one_request_tells_whether_any_of_the_newest_commits_was_checked(
    served: Served, rollup: dict[str, str] | None, *, checked: bool
) -> None:
    commits = [{"statusCheckRollup": None}, {"statusCheckRollup": rollup}]
    told = {"repository": {"ref": {"target": {"history": {"nodes": commits}}}}}
    served.server.route("POST", "/graphql", answers({"data": told}))
    assert await served.forge.is_checked("trunk") is checked
    (asked_for,) = served.server.requests
    assert asked_for.json()["variables"] == {
        "owner": "o", "name": "r", "branch": "refs/heads/trunk", "first": 10,
    }  # fmt: skip


async def test_without_graphql_the_newest_commit_alone_tells_whether_a_branch_is_checked(
    served: Served,
) -> None:
    served.server.route("POST", "/graphql", fails(404))
    served.serve("GET", "/git/ref/heads/trunk", answers({"object": {"sha": HEAD}}))
    served.commit([])
    assert not await served.forge.is_checked("trunk")
    assert len(served.server.requests) == 4
    served.commit([run("build", 1, conclusion="success")])
    assert await served.forge.is_checked("trunk")


@pytest.mark.parametrize("unknown", [404, 422])
async def test_a_commit_that_is_not_there_has_no_checks(served: Served, unknown: int) -> None:
    served.server.route("GET", f"{COMMIT}/check-runs", fails(unknown, "No commit found for SHA"))
    assert await served.forge.checks(HEAD) == ()


async def test_a_repository_we_may_not_see_is_no_commit_without_checks(served: Served) -> None:
    served.server.route("GET", f"{COMMIT}/check-runs", fails(404))
    served.server.route("GET", REPO, fails(404))
    with pytest.raises(MissingError):
        await served.forge.checks(HEAD)
    with pytest.raises(MissingError):
        await served.forge.pull(3)
    with pytest.raises(MissingError):
        await served.forge.head("main")


@pytest.mark.parametrize("forbidden", ["check-runs", "status"])
async def test_half_a_verdict_is_none(served: Served, forbidden: str) -> None:
    served.commit([run("build", 1, conclusion="success")])
    served.server.route("GET", f"{COMMIT}/{forbidden}", fails(403, "Resource not accessible"))
    with pytest.raises(ForbiddenError):
        await served.forge.checks(HEAD)


async def test_trouble_of_githubs_own_is_told_as_such(served: Served) -> None:
    served.commit([])
    served.server.route("GET", f"{COMMIT}/status", fails(502))
    with pytest.raises(UnreachableError):
        await served.forge.checks(HEAD)
    limited = fails(403, "API rate limit exceeded", x_ratelimit_remaining="0")
    served.server.route("GET", f"{COMMIT}/status", limited)
    with pytest.raises(LimitedError):
        await served.forge.checks(HEAD)


async def test_an_answer_of_another_form_is_garbled(served: Served) -> None:
    served.server.route("GET", f"{COMMIT}/check-runs", answers({"surprise": []}))
    with pytest.raises(GarbledError):
        await served.forge.checks(HEAD)
    served.commit([None, 3, "x", {}])
    assert [each.state for each in await served.forge.checks(HEAD)] == [CheckState.PENDING]


async def test_a_failed_job_is_explained_by_its_step_and_log(served: Served) -> None:
    async with forge_server() as storage:
        storage.route("GET", "/log", text(LOG))
        served.serve("GET", "/actions/jobs/5", answers({"name": "unit", "steps": STEPS}))
        served.serve("GET", "/actions/jobs/5/logs", moved(f"{storage.url}/log"))
        told = await served.forge.explain(HEAD, JOB)
        assert "authorization" not in storage.requests[0].headers
    assert told.summary == "job 'unit' failed in step 'Test'"
    assert told.excerpt == TOLD
    assert (told.name, told.state, told.ref) == (JOB.name, JOB.state, JOB.ref)


@pytest.mark.parametrize("gone", [fails(404), fails(410), fails(403)])
async def test_without_its_log_a_job_is_explained_by_its_notes(served: Served, gone: Reply) -> None:
    served.serve("GET", "/actions/jobs/5", answers({"name": "unit", "steps": STEPS}))
    served.serve("GET", "/actions/jobs/5/logs", gone)
    output = {"title": "unit failed", "summary": None, "annotations_count": 1}
    served.serve("GET", "/check-runs/5", answers({"output": output}))
    note = {"path": "a.py", "start_line": 2, "annotation_level": "failure", "message": "no"}
    served.serve("GET", "/check-runs/5/annotations", answers([note]))
    told = await served.forge.explain(HEAD, JOB)
    assert told.summary == "job 'unit' failed in step 'Test'"
    assert told.excerpt == "unit failed\na.py:2: failure: no"


async def test_what_cannot_be_explained_stays_as_it_was(served: Served) -> None:
    assert await served.forge.explain(HEAD, JOB) == JOB
    other = JOB.model_copy(update={"ref": "status:1", "summary": "2 of 3 failed"})
    assert (await served.forge.explain(HEAD, other)).excerpt == "2 of 3 failed"


async def test_trouble_while_explaining_is_told(served: Served) -> None:
    served.serve("GET", "/actions/jobs/5", fails(503))
    with pytest.raises(UnreachableError):
        await served.forge.explain(HEAD, JOB)


async def test_failed_jobs_run_again_once_for_each_workflow_run(served: Served) -> None:
    served.serve("POST", "/actions/runs/9/rerun-failed-jobs", answers({}, status=201))
    served.serve("POST", "/check-runs/8/rerequest", answers({}, status=201))
    served.serve("GET", "/actions/jobs/7", answers({"run_id": 9}))
    checks = [
        JOB,
        JOB.model_copy(update={"ref": "job:6:9"}),
        JOB.model_copy(update={"ref": "job:7:"}),
        JOB.model_copy(update={"ref": "check:8"}),
    ]
    assert await served.forge.rerun(HEAD, checks)
    assert [each.path for each in served.server.requests if each.method == "POST"] == [
        f"{REPO}/actions/runs/9/rerun-failed-jobs",
        f"{REPO}/check-runs/8/rerequest",
    ]


async def test_nothing_runs_again_if_a_part_of_it_cannot(served: Served) -> None:
    served.serve("POST", "/actions/runs/9/rerun-failed-jobs", answers({}, status=201))
    outside = Check(name="ext", state=CheckState.FAILED, ref="status:1")
    assert not await served.forge.rerun(HEAD, [JOB, outside])
    assert not await served.forge.rerun(HEAD, [])
    assert [each for each in served.server.requests if each.method == "POST"] == []


@pytest.mark.parametrize("refusal", [403, 404, 422])
async def test_a_refused_run_is_no_run(served: Served, refusal: int) -> None:
    served.serve("POST", "/actions/runs/9/rerun-failed-jobs", fails(refusal, "already running"))
    assert not await served.forge.rerun(HEAD, [JOB])


async def test_a_name_that_only_begins_others_has_no_head(served: Served) -> None:
    several = [{"ref": "refs/heads/agent/a", "object": {"sha": HEAD}}]
    served.serve("GET", "/git/ref/heads/agent", answers(several))
    assert await served.forge.head("agent") is None
    served.serve("GET", "/git/ref/heads/a%23b", answers({"object": {"sha": OLD}}))
    assert await served.forge.head("a#b") == OLD
    served.serve("GET", "/git/ref/heads/main", fails(409, "Git Repository is empty."))
    assert await served.forge.head("main") is None
    assert await served.forge.default_branch() == "trunk"


async def test_many_pull_requests_are_listed_page_by_page(served: Served) -> None:
    link = {"link": f'<{served.server.url}{REPO}/pulls?page=2>; rel="next"'}
    served.serve(
        "GET",
        "/pulls",
        lambda request: (
            answers([pull(number=2)])
            if request.query.get("page") == "2"
            else answers([pull(number=3)], headers=link)
        ),
    )
    assert [each.number for each in await served.forge.open_pulls()] == [3, 2]


async def test_a_branch_of_the_same_name_in_a_fork_is_not_ours(served: Served) -> None:
    fork = {"ref": "agent/a", "sha": OLD, "repo": {"full_name": "x/r"}}
    served.serve("GET", "/pulls", answers([pull(number=9, head=fork), pull(number=3)]))
    served.serve("GET", "/pulls/3", answers(pull()))
    found = await served.forge.find_pull("agent/a")
    assert found is not None
    assert found.number == 3
    assert found.ours
    assert asked(served, "GET", f"{REPO}/pulls")[0].query["head"] == "o:agent/a"
    assert [each.ours for each in await served.forge.open_pulls()] == [False, True]
    served.serve("GET", "/pulls/9", answers(pull(number=9, head=fork)))
    other = await served.forge.pull(9)
    assert other is not None
    assert not other.ours


@pytest.mark.parametrize("viewer", ["loopwright[bot]", "loopwright"])
async def test_an_app_knows_what_its_bot_wrote(served: Served, viewer: str) -> None:
    """A person may have the name that the bot has without its mark."""
    served.server.route("GET", "/user", fails(403, "Resource not accessible by integration"))
    served.server.route("POST", "/graphql", answers({"data": {"viewer": {"login": viewer}}}))
    told = [said("loopwright[bot]", "", 1, body="Done."), said("loopwright", "", 2, body="No.")]
    said_of(served, told)
    for _ in range(2):
        remarks = (await served.forge.reviews(pull_of(pull()))).remarks
        assert [each.own for each in remarks] == [True, False]
    assert served.server.count("GET", "/user") == 1


@pytest.mark.parametrize(
    "reply",
    [fails(403), answers({"data": None, "errors": [{"message": "no"}]}), answers([])],
)
async def test_nobody_is_taken_for_us_if_it_cannot_be_known(served: Served, reply: Reply) -> None:
    served.server.route("GET", "/user", fails(403, "Resource not accessible by integration"))
    served.server.route("POST", "/graphql", reply)
    said_of(served, [said("x", "", 1, user=None, body="Hello"), said("[bot]", "", 2, body="Hi")])
    for _ in range(2):
        remarks = (await served.forge.reviews(pull_of(pull()))).remarks
        assert [each.own for each in remarks] == [False, False]
    assert served.server.count("GET", "/user") == 1


async def test_who_we_are_is_asked_again_after_trouble(served: Served) -> None:
    served.server.route("GET", "/user", in_turn(fails(502), answers({"login": "wright"})))
    said_of(served, [said("wright", "", 1, body="Done.")])
    with pytest.raises(UnreachableError):
        await served.forge.reviews(pull_of(pull()))
    served.now += 60
    assert (await served.forge.reviews(pull_of(pull()))).remarks[0].own


def said_of(served: Served, comments: list[dict[str, Any]]) -> None:
    """Serve what was written about a pull request."""
    served.serve("GET", "/pulls/3/reviews", answers([]))
    served.serve("GET", "/pulls/3/comments", answers([]))
    served.serve("GET", "/issues/3/comments", answers(comments))


async def test_a_label_that_may_not_be_set_is_no_failure(served: Served) -> None:
    served.serve("POST", "/pulls", answers(pull(), status=201))
    served.serve("POST", "/issues/3/labels", fails(403))
    made = await served.forge.create_pull(
        NewPull(branch="agent/a", base="main", title="t", body="b", labels=("agent",))
    )
    assert made.number == 3
    assert served.server.count("POST", f"{REPO}/issues/3/labels", status=403) == 1


@pytest.mark.parametrize(
    ("user", "repo", "expected"),
    [
        (
            answers({"login": "ann"}, headers={"x-oauth-scopes": "repo, workflow"}),
            answers({"permissions": {"push": True}}),
            ("ann", True, True, ""),
        ),
        (
            answers({"login": "ann"}, headers={"x-oauth-scopes": "read:org"}),
            answers({"permissions": {"push": True}}),
            ("ann", True, False, "lacks the scope repo"),
        ),
        (
            answers({"login": "ann"}),
            answers({"permissions": {"push": False}}),
            ("ann", True, False, "may not write"),
        ),
        (answers({"login": "ann"}), fails(404), ("ann", False, False, "cannot see github.com/o/r")),
        (
            fails(403, "Resource not accessible by integration"),
            answers({"permissions": {"push": False}}),
            ("a GitHub App", True, True, ""),
        ),
    ],
)
async def test_access_says_what_is_missing(
    served: Served, user: Reply, repo: Reply, expected: tuple[str, bool, bool, str]
) -> None:
    served.server.route("GET", "/user", user)
    served.server.route("GET", REPO, repo)
    told = await served.forge.access()
    who, can_read, can_write, problem = expected
    assert (told.who, told.can_read, told.can_write) == (who, can_read, can_write)
    assert problem in told.problem
    assert bool(problem) == bool(told.problem)


async def test_what_did_not_change_costs_nothing(served: Served) -> None:
    served.serve("GET", "/pulls/3", answers(pull(), etag='"a"'))
    first = await served.forge.pull(3)
    spent = served.forge.budget.spent
    assert await served.forge.pull(3) == first
    assert served.forge.budget.spent == spent
    assert served.server.count("GET", f"{REPO}/pulls/3", status=304) == 1


async def test_remarks_in_resolved_threads_are_marked_as_done(served: Served) -> None:
    found = await seen(served)
    line = {"id": 5_000_000_001, "body": "rename it", "user": {"login": "rita"}, "path": "a.py"}
    served.serve("GET", "/pulls/3/comments", answers([line, {**line, "id": 6}]))
    for path in ("/pulls/3/reviews", "/issues/3/comments"):
        served.serve("GET", path, answers([]))
    served.server.route("GET", "/user", answers({"login": "wright"}))
    done = {"isResolved": True, "comments": {"nodes": [{"fullDatabaseId": "5000000001"}]}}
    open_ = {"isResolved": False, "comments": {"nodes": [{"fullDatabaseId": "6"}]}}
    threads = {"pullRequest": {"reviewThreads": {"nodes": [done, open_]}}}
    served.server.route("POST", "/graphql", answers({"data": {"repository": threads}}))
    told = {each.key: each.resolved for each in (await served.forge.reviews(found)).remarks}
    assert told == {"line:5000000001": True, "line:6": False}
    served.server.route("POST", "/graphql", answers({"errors": [{"message": "no such field"}]}))
    assert not any(each.resolved for each in (await served.forge.reviews(found)).remarks)
