"""GitHub as a forge, where emulate is not GitHub enough: served from GitHub's documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ci.checks import Check, CheckState
from ci.errors import ForbiddenError, GarbledError, LimitedError, MissingError, UnreachableError
from ci.github import GitHubForge
from tests.ci.forge_server import answers, fails, forge_server, in_turn, moved, text
from tests.ci.github_answers import HEAD, LOG, OLD, STEPS, TOLD, pull, run, status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ci.forge import ForgePull
    from tests.ci.forge_server import Asked, ForgeServer, Reply

NOW = 1_800_000_000.0
REPO = "/repos/o/r"
COMMIT = f"{REPO}/commits/{HEAD}"
JOB = Check(name="ci", state=CheckState.FAILED, how="failure", ref="job:5:9", url="https://x")


async def sign() -> dict[str, str]:
    return {"Authorization": "Bearer ghp_secret"}


class Served:
    """A forge and the server that plays GitHub for it."""

    def __init__(self, server: ForgeServer) -> None:
        self.server = server
        self.slept: list[float] = []
        self.now = NOW
        self.forge = self.at("")
        server.route("GET", REPO, answers({"full_name": "o/r", "default_branch": "trunk"}))

    def at(self, prefix: str) -> GitHubForge:
        return GitHubForge(
            repo="o/r",
            api=self.server.url + prefix,
            web_url="https://github.com",
            sign=sign,
            now=lambda: self.now,
            sleep=self.sleep,
        )

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def serve(self, method: str, path: str, reply: Reply | Any) -> None:
        self.server.route(method, f"{REPO}{path}", reply)

    def commit(self, runs: list[Any], statuses: list[Any] | None = None) -> None:
        """Answer so about the checks of the commit."""
        self.server.route("GET", f"{COMMIT}/check-runs", answers({"check_runs": runs}))
        joined = {"state": "pending", "statuses": statuses or []}
        self.server.route("GET", f"{COMMIT}/status", answers(joined))


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with forge_server() as server:
        served = Served(server)
        yield served
        await served.forge.aclose()


def asked(served: Served, method: str, path: str) -> list[Asked]:
    return [each for each in served.server.requests if (each.method, each.path) == (method, path)]


async def seen(served: Served, **told: Any) -> ForgePull:
    served.serve("GET", "/pulls/3", answers(pull(**told)))
    found = await served.forge.pull(3)
    assert found is not None
    return found


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


async def test_a_merge_waits_while_github_computes_whether_it_merges(served: Served) -> None:
    found = await seen(served, mergeable_state="unknown", mergeable=None)
    served.serve(
        "PUT",
        "/pulls/3/merge",
        in_turn(
            fails(405, "Pull Request is not mergeable"),
            fails(405, "Base branch was modified. Review and try the merge again."),
            answers({"merged": True, "sha": OLD}),
        ),
    )
    done = await served.forge.merge(found, sha=HEAD, method="rebase", message="Title\n\nMore")
    assert (done.merged, done.commit) == (True, OLD)
    assert served.slept == [1.0, 2.0]
    assert asked(served, "PUT", f"{REPO}/pulls/3/merge")[0].json() == {
        "sha": HEAD,
        "merge_method": "rebase",
        "commit_title": "Title",
        "commit_message": "More",
    }


async def test_a_merge_gives_up_after_a_while(served: Served) -> None:
    found = await seen(served, mergeable_state="unknown", mergeable=None)
    served.serve("PUT", "/pulls/3/merge", fails(405, "Pull Request is not mergeable"))
    done = await served.forge.merge(found, sha=HEAD, method="merge", message="")
    assert not done.merged
    assert "not mergeable" in done.reason
    assert sum(served.slept) == 15


@pytest.mark.parametrize(
    ("told", "refusal", "reason"),
    [
        ({"mergeable_state": "blocked"}, (405, "Review is required"), "blocked"),
        ({"mergeable_state": "dirty"}, (405, "Pull Request is not mergeable"), "conflicts"),
        ({"mergeable": True}, (405, "Merge commits are not allowed"), "not allowed"),
        ({"head": {"ref": "agent/a", "sha": OLD}}, (409, "Head branch was modified"), OLD),
        ({"state": "closed"}, (405, "Pull Request is not mergeable"), "closed"),
        ({"mergeable": True}, (422, "Validation Failed"), "Validation"),
    ],
)
async def test_a_refused_merge_says_why_at_once(
    served: Served, told: dict[str, Any], refusal: tuple[int, str], reason: str
) -> None:
    found = await seen(served, **told)
    served.serve("PUT", "/pulls/3/merge", fails(*refusal))
    done = await served.forge.merge(found, sha=HEAD, method="merge", message="")
    assert not done.merged
    assert reason in done.reason
    assert served.slept == []


async def test_a_merge_whose_answer_was_lost_is_a_merge(served: Served) -> None:
    found = await seen(served)
    served.serve("PUT", "/pulls/3/merge", fails(405, "Pull Request is not mergeable"))
    ended = pull(state="closed", merged=True, merge_commit_sha=OLD)
    served.serve("GET", "/pulls/3", answers(ended))
    done = await served.forge.merge(found, sha=HEAD, method="merge", message="")
    assert (done.merged, done.commit) == (True, OLD)


async def test_a_merge_that_is_forbidden_is_told_to_people(served: Served) -> None:
    found = await seen(served)
    served.serve("PUT", "/pulls/3/merge", fails(403, "Resource not accessible"))
    with pytest.raises(ForbiddenError):
        await served.forge.merge(found, sha=HEAD, method="merge", message="")


class Queue:
    """A merge queue as GitHub's GraphQL shows it."""

    def __init__(self, served: Served, *, path: str = "/graphql") -> None:
        self.holds = False
        self.refuses = ""
        self.asked: list[dict[str, Any]] = []
        rules = [{"type": "deletion"}, {"type": "merge_queue"}]
        served.serve("GET", "/rules/branches/main", answers(rules))
        served.server.route("POST", path, self.answer)

    def answer(self, request: Asked) -> Reply:
        body = request.json()
        if "enqueue" in body["query"]:
            self.asked.append(body["variables"])
            if self.refuses:
                return answers({"errors": [{"message": self.refuses}], "data": None})
            self.holds = True
        entry = {"id": "x"} if self.holds else None
        return answers({"data": {"repository": {"pullRequest": {"mergeQueueEntry": entry}}}})


async def test_a_base_with_a_merge_queue_is_never_merged_into_directly(served: Served) -> None:
    queue = Queue(served)
    found = await seen(served, node_id="PR_1")
    assert not found.queued
    done = await served.forge.merge(found, sha=HEAD, method="merge", message="")
    assert (done.merged, done.reason) == (False, "in the merge queue")
    assert queue.asked == [{"pull": "PR_1", "sha": HEAD}]
    assert (await seen(served, node_id="PR_1")).queued
    assert asked(served, "PUT", f"{REPO}/pulls/3/merge") == []


async def test_what_stands_in_the_queue_already_stays_there(served: Served) -> None:
    queue = Queue(served)
    queue.holds, queue.refuses = True, "Pull request is already in the queue"
    found = await seen(served, node_id="PR_1")
    done = await served.forge.merge(found, sha=HEAD, method="merge", message="")
    assert (done.merged, done.reason) == (False, "in the merge queue")


async def test_a_refusal_of_the_queue_is_told(served: Served) -> None:
    Queue(served).refuses = "Pull request is in draft"
    found = await seen(served, node_id="PR_1")
    done = await served.forge.merge(found, sha=HEAD, method="merge", message="")
    assert (done.merged, done.reason) == (False, "Pull request is in draft")


async def test_whether_a_base_has_a_queue_is_asked_now_and_then_only(served: Served) -> None:
    rules = f"{REPO}/rules/branches/main"
    for _ in range(3):
        await seen(served)
    assert served.server.count("GET", rules) == 1
    served.now += 601
    await seen(served)
    assert served.server.count("GET", rules) == 2


async def test_enterprise_has_its_graphql_beside_its_rest(served: Served) -> None:
    queue = Queue(served, path="/api/graphql")
    for path, reply in (
        ("", answers({"full_name": "o/r"})),
        ("/pulls/3", answers(pull(node_id="PR_1"))),
        ("/rules/branches/main", answers([{"type": "merge_queue"}])),
    ):
        served.server.route("GET", f"/api/v3{REPO}{path}", reply)
    forge = served.at("/api/v3")
    found = await forge.pull(3)
    assert found is not None
    await forge.merge(found, sha=HEAD, method="merge", message="")
    assert len(queue.asked) == 1
    await forge.aclose()


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
    assert asked(served, "GET", f"{REPO}/pulls")[0].query["head"] == "o:agent/a"


async def test_a_label_that_may_not_be_set_is_no_failure(served: Served) -> None:
    served.serve("POST", "/pulls", answers(pull(), status=201))
    served.serve("POST", "/issues/3/labels", fails(403))
    made = await served.forge.create_pull(
        branch="agent/a", base="main", title="t", body="b", labels=["agent"]
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
