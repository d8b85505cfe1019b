"""Merging on GitHub: while it computes, when it refuses, and through a merge queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ci.errors import LimitedError
from tests.ci.forge_server import Reply, answers, fails, in_turn
from tests.ci.github.github_answers import HEAD, OLD, pull
from tests.ci.github.github_served import REPO, Served, asked, seen

if TYPE_CHECKING:
    from tests.ci.forge_server import Asked


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


@pytest.mark.parametrize("status", [403, 404])
@pytest.mark.parametrize("told", [{}, {"mergeable": None, "mergeable_state": "unknown"}])
async def test_a_merge_that_the_token_does_not_allow_is_refused_at_once(
    served: Served, status: int, told: dict[str, Any]
) -> None:
    found = await seen(served, **told)
    words = "refusing to allow a token to change a workflow without `workflow` scope, try again"
    served.serve("PUT", "/pulls/3/merge", fails(status, words))
    done = await served.forge.merge(found, sha=HEAD, method="merge", message="")
    assert not done.merged
    assert "`workflow` scope" in done.reason
    assert served.slept == []


async def test_a_rate_limit_while_merging_is_no_refusal(served: Served) -> None:
    found = await seen(served)
    spent = Reply(403, b"{}", {"x-ratelimit-remaining": "0", "retry-after": "60"})
    served.serve("PUT", "/pulls/3/merge", spent)
    with pytest.raises(LimitedError):
        await served.forge.merge(found, sha=HEAD, method="merge", message="")


async def test_a_merge_that_the_queue_forbids_is_refused(served: Served) -> None:
    Queue(served)
    found = await seen(served, node_id="PR_1")
    served.server.route("POST", "/graphql", fails(403, "Resource not accessible"))
    done = await served.forge.merge(found, sha=HEAD, method="merge", message="")
    assert not done.merged
    assert "Resource not accessible" in done.reason


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
            return answers({"data": {"enqueuePullRequest": {"mergeQueueEntry": {"id": "x"}}}})
        entry = {"id": "x", "headCommit": None} if self.holds else None
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
    served.now += 901
    await seen(served)
    assert served.server.count("GET", rules) == 2
    # What is known of the rules of a branch is not asked for once more.
    served.now += 800
    await served.forge.branch_rules("main")
    served.now += 800
    await seen(served)
    assert served.server.count("GET", rules) == 3


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


async def test_github_is_asked_to_bring_exactly_this_head_up_to_date(served: Served) -> None:
    found = await seen(served, mergeable_state="behind")
    served.serve("PUT", "/pulls/3/update-branch", answers({"message": "Updating"}, status=202))
    assert await served.forge.update_pull(found)
    (order,) = asked(served, "PUT", f"{REPO}/pulls/3/update-branch")
    assert order.json() == {"expected_head_sha": HEAD}


async def test_text_people_and_the_end_of_a_draft_are_told_to_github(served: Served) -> None:
    found = await seen(served, node_id="PR_1", draft=True)
    for method, path in (
        ("PATCH", "/pulls/3"),
        ("POST", "/pulls/3/requested_reviewers"),
        ("POST", "/issues/3/assignees"),
    ):
        served.serve(method, path, answers({}))
    ready = {"markPullRequestReadyForReview": {"pullRequest": {"isDraft": False}}}
    served.server.route("POST", "/graphql", answers({"data": ready}))
    await served.forge.edit_pull(found, title="New", body="Words")
    await served.forge.ask_for_review(3, ("rita", "acme/core"))
    await served.forge.assign(3, ("rita",))
    await served.forge.mark_ready(found)
    sent = {
        (each.method, each.path.removeprefix(REPO)): each.json()
        for each in served.server.requests
        if each.method != "GET"
    }
    ready = sent.pop(("POST", "/graphql"))
    assert sent == {
        ("PATCH", "/pulls/3"): {"title": "New", "body": "Words"},
        ("POST", "/pulls/3/requested_reviewers"): {
            "reviewers": ["rita"],
            "team_reviewers": ["core"],
        },
        ("POST", "/issues/3/assignees"): {"assignees": ["rita"]},
    }
    assert "markPullRequestReadyForReview" in ready["query"]
    assert ready["variables"] == {"pull": "PR_1"}
