"""GitHub's webhooks: every published example, and what each kind is a hint at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ci.github.webhooks import event, hint, identity, signed
from tests.ci.webhooks.inboxes import signature
from tests.tools.npm_tools import installed

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET = "it is a secret"  # noqa: S105  # of this test
HELLO = "Codertocat/Hello-World"
CHANGES = "ec26c3e57ca3a959ca5aad62de7213c562f8c821"


@pytest.fixture(scope="session")
def examples() -> dict[str, list[dict[str, Any]]]:
    """By event: what GitHub publishes as examples of its deliveries."""
    at = installed() / "node_modules/@octokit/webhooks-examples/api.github.com/index.json"
    return {each["name"]: each["examples"] for each in json.loads(at.read_bytes())}


def headers(name: str, raw: bytes = b"") -> dict[str, str]:
    return {
        "X-GitHub-Event": name,
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "X-Hub-Signature-256": signature(raw, SECRET),
    }


def named(given: Mapping[str, list[dict[str, Any]]], name: str) -> dict[str, Any]:
    """Return the first example of `event.action`, or of the event."""
    kind, _, action = name.partition(".")
    return next(each for each in given[kind] if not action or each["action"] == action)


def test_every_published_example_is_signed_named_and_understood(
    examples: dict[str, list[dict[str, Any]]],
) -> None:
    count = 0
    for name, bodies in examples.items():
        for body in bodies:
            raw = json.dumps(body).encode()
            told = headers(name, raw)
            assert signed(told, raw, [SECRET])
            assert not signed(told, raw + b" ", [SECRET])
            assert identity(told, raw) == "72d3162e-cc78-11e3-81ab-4c9367dc0958"
            action = body.get("action")
            assert event(told, body) == (f"{name}.{action}" if action else name)
            seen = hint(told, body)
            assert seen is None or (seen.repo and (seen.sha or seen.branch or seen.numbers))
            count += 1
    assert count == 329


QUEUED = "gh-readonly-queue/main/pr-104-929f8209d40f77f4abc622a499c93a83babdbe64"


@pytest.mark.parametrize(
    ("name", "repo", "about"),
    [
        ("check_run.completed", HELLO, ("changes", CHANGES, (2,))),
        ("check_run.rerequested", "github/hello-world", ("master", "d6fde92930", ())),
        ("check_suite.completed", HELLO, ("changes", CHANGES, (2,))),
        ("check_suite.requested", HELLO, ("master", "f95f852bd8", ())),
        ("workflow_run.completed", HELLO, ("main", "5779607b49", ())),
        ("workflow_job.completed", HELLO, ("main", "3484a3fb81", ())),
        ("status", HELLO, ("", "6113728f27", ())),
        ("pull_request.opened", HELLO, ("changes", CHANGES, (2,))),
        ("pull_request.synchronize", HELLO, ("changes", CHANGES, (2,))),
        ("pull_request.closed", HELLO, ("changes", CHANGES, (2,))),
        ("pull_request_review.submitted", HELLO, ("changes", CHANGES, (2,))),
        ("pull_request_review_comment.created", HELLO, ("changes", CHANGES, (2,))),
        ("merge_group.checks_requested", "octo-org/octo-repo", (QUEUED, "2ffea6db15", (104,))),
    ],
)
def test_what_a_delivery_is_a_hint_at(
    examples: dict[str, list[dict[str, Any]]],
    name: str,
    repo: str,
    about: tuple[str, str, tuple[int, ...]],
) -> None:
    seen = hint(headers(name.partition(".")[0]), named(examples, name))
    branch, sha, numbers = about
    assert seen is not None
    assert (seen.repo, seen.branch, seen.numbers, seen.event) == (repo, branch, numbers, name)
    assert seen.sha.startswith(sha)


def test_what_changes_none_of_our_waits_is_of_no_interest(
    examples: dict[str, list[dict[str, Any]]],
) -> None:
    interesting = {
        name for name in examples for body in examples[name] if hint(headers(name), body)
    }
    assert interesting == {
        "check_run",
        "check_suite",
        "merge_group",
        "pull_request",
        "pull_request_review",
        "pull_request_review_comment",
        "pull_request_review_thread",
        "push",
        "status",
        "workflow_job",
        "workflow_run",
    }
    assert hint(headers("ping"), {"zen": "Keep it logically awesome.", "hook_id": 1}) is None


def test_a_push_to_a_branch_counts_and_a_tag_does_not() -> None:
    told = headers("push")
    body = {"ref": "refs/heads/agent/a", "after": "a" * 40, "repository": {"full_name": "o/r"}}
    seen = hint(told, body)
    assert seen is not None
    assert (seen.branch, seen.sha) == ("agent/a", "a" * 40)
    gone = hint(told, {**body, "after": "0" * 40})
    assert gone is not None
    assert (gone.branch, gone.sha) == ("agent/a", "")
    assert hint(told, {**body, "ref": "refs/tags/agent/a"}) is None


def test_a_comment_counts_on_a_pull_request_only() -> None:
    told, issue = headers("issue_comment"), {"number": 7, "pull_request": {"url": "https://x"}}
    seen = hint(told, {"action": "created", "issue": issue})
    assert seen is not None
    assert seen.numbers == (7,)
    assert hint(told, {"action": "created", "issue": {"number": 7}}) is None


def test_a_check_run_without_pull_requests_is_told_by_its_commit() -> None:
    run = {"head_sha": "b" * 40, "pull_requests": [], "check_suite": {"head_branch": None}}
    seen = hint(headers("check_run"), {"action": "completed", "check_run": run})
    assert seen is not None
    assert (seen.sha, seen.branch, seen.numbers) == ("b" * 40, "", ())


def test_a_status_names_its_branch_only_if_one_branch_is_at_the_commit() -> None:
    def at(*branches: str) -> dict[str, Any]:
        commit = {"sha": "c" * 40}
        return {"sha": "c" * 40, "branches": [{"name": b, "commit": commit} for b in branches]}

    one, two = hint(headers("status"), at("a")), hint(headers("status"), at("a", "b"))
    assert one is not None
    assert two is not None
    assert (one.branch, two.branch, two.sha) == ("a", "", "c" * 40)


@pytest.mark.parametrize("odd", [None, 1, "text", [], [None, 3, {"number": "x"}], {}, True, -1])
def test_an_odd_field_never_raises(odd: object) -> None:
    for name in ("check_run", "check_suite", "workflow_run", "workflow_job", "merge_group"):
        told = headers(name)
        assert hint(told, {name: odd, "repository": odd, "action": odd}) is None
        inner = {"head_sha": odd, "head_branch": odd, "head_ref": odd, "pull_requests": odd}
        hint(told, {name: {**inner, "check_suite": odd}, "action": odd})
        event(told, {"action": odd})
    for name in ("pull_request", "issue_comment", "push", "status"):
        hint(headers(name), dict.fromkeys(("pull_request", "issue", "ref", "sha", "branches"), odd))
        hint(headers(name), {"pull_request": {"head": odd, "number": odd}, "number": odd})


def test_an_absurd_number_in_a_queue_branch_is_no_number() -> None:
    group = {"head_ref": "refs/heads/gh-readonly-queue/main/pr-" + "9" * 5000, "head_sha": "a"}
    seen = hint(headers("merge_group"), {"merge_group": group})
    assert seen is not None
    assert seen.numbers == ()
