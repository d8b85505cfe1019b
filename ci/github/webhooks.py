"""GitHub's webhooks: how they are signed, and what each one hints at.

Owns GitHub's names of headers, events and fields. Pure and tolerant: a missing, new or odd event or
field gives an empty hint or none, never an error. SHA-1 signatures are refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ci.forge.json_fields import at, lowered, number, rows, text
from ci.webhook_delivery import Hint
from ci.webhooks.signatures import is_signed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

HEADERS = frozenset({
    "x-github-event", "x-github-delivery", "x-github-hook-id",
    "x-github-hook-installation-target-type",
})  # fmt: skip
EVENT_HEADER = "x-github-event"
SIGNATURE = "x-hub-signature-256"
_PREFIX = "sha256="
_BRANCH = "refs/heads/"
_IN_QUEUE = r"pr-([0-9]{1,12})(?:-.*)?"
"""The last part of a branch of the merge queue, with the number of the pull request."""


def signed(
    headers: Mapping[str, str], raw: bytes, secrets: Sequence[str], *, now: float = 0.0
) -> bool:
    """Return whether one of the secrets signed exactly these bytes; an empty secret never does."""
    del now  # GitHub does not sign the time
    given = lowered(headers).get(SIGNATURE, "")
    shown = given.removeprefix(_PREFIX)
    return shown != given and is_signed(shown, raw, secrets)


def identity(headers: Mapping[str, str], raw: bytes) -> str:
    """Return GitHub's id of the delivery; a redelivery has the same one."""
    del raw
    return lowered(headers).get("x-github-delivery", "").strip()


def event(headers: Mapping[str, str], body: dict[str, Any]) -> str:
    """Return the event and its action: check_run.completed."""
    name, action = _name(headers), text(body, "action")
    return f"{name}.{action}" if name and action else name


def hint(headers: Mapping[str, str], body: dict[str, Any]) -> Hint | None:
    """Return what to check now; None for an irrelevant event."""
    about = _ABOUT.get(_name(headers))
    if about is None:
        return None
    branch, sha, told = about(body)
    numbers = tuple(dict.fromkeys(each for each in told if each is not None and each > 0))
    if not (branch or sha or numbers):
        return None
    return Hint(
        repo=text(body, "repository", "full_name"),
        branch=branch,
        sha=sha,
        numbers=numbers,
        event=event(headers, body),
    )


About = tuple[str, str, list[int | None]]
"""A branch, a commit and pull requests."""


def _check_run(body: dict[str, Any]) -> About:
    suite = ("check_run", "check_suite")
    # `pull_requests` is empty more often than not; the commit is what counts.
    return (
        text(body, *suite, "head_branch"),
        text(body, "check_run", "head_sha") or text(body, *suite, "head_sha"),
        [*_pulls(body, "check_run"), *_pulls(body, *suite)],
    )


def _headed(name: str) -> Callable[[dict[str, Any]], About]:
    def about(body: dict[str, Any]) -> About:
        return text(body, name, "head_branch"), text(body, name, "head_sha"), _pulls(body, name)

    return about


def _status(body: dict[str, Any]) -> About:
    sha = text(body, "sha")
    branches = [
        text(branch, "name")
        for branch in rows(body, "branches")
        if text(branch, "commit", "sha") == sha
    ]
    # Several branches may be at the commit; then only the commit tells what it is about.
    return branches[0] if len(branches) == 1 else "", sha, []


def _pull_request(body: dict[str, Any]) -> About:
    head = ("pull_request", "head")
    numbered = number(body, "pull_request", "number") or number(body, "number")
    return text(body, *head, "ref"), text(body, *head, "sha"), [numbered]


def _issue_comment(body: dict[str, Any]) -> About:
    on_a_pull_request = isinstance(at(body, "issue", "pull_request"), dict)
    return "", "", [number(body, "issue", "number")] if on_a_pull_request else []


def _merge_group(body: dict[str, Any]) -> About:
    branch = text(body, "merge_group", "head_ref").removeprefix(_BRANCH)
    # gh-readonly-queue/main/pr-12-<sha of the base>
    found = re.fullmatch(_IN_QUEUE, branch.rpartition("/")[2])
    return branch, text(body, "merge_group", "head_sha"), [int(found[1])] if found else []


def _push(body: dict[str, Any]) -> About:
    ref, after = text(body, "ref"), text(body, "after")
    if not ref.startswith(_BRANCH):
        return "", "", []
    return ref.removeprefix(_BRANCH), after if after.strip("0") else "", []


def _pulls(body: dict[str, Any], *path: str) -> list[int | None]:
    return [number(pull, "number") for pull in rows(body, *path, "pull_requests")]


def _name(headers: Mapping[str, str]) -> str:
    return lowered(headers).get(EVENT_HEADER, "").strip()


_ABOUT: dict[str, Callable[[dict[str, Any]], About]] = {
    "check_run": _check_run,
    "check_suite": _headed("check_suite"),
    "workflow_run": _headed("workflow_run"),
    "workflow_job": _headed("workflow_job"),
    "status": _status,
    "pull_request": _pull_request,
    "pull_request_review": _pull_request,
    "pull_request_review_comment": _pull_request,
    "pull_request_review_thread": _pull_request,
    "issue_comment": _issue_comment,
    "merge_group": _merge_group,
    "push": _push,
}
