"""GitHub's webhooks: how they are signed, and what each one is a hint at.

Owns GitHub's names of headers, events and fields. Pure and tolerant: an event or a field that is
missing, new or odd gives an empty hint or none, never an error. SHA-1 signatures are refused.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any

from ci.inbox import Hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

SIGNATURE = "x-hub-signature-256"
_PREFIX = "sha256="
_BRANCH = "refs/heads/"
_MOST_DIGITS = 12
"""Of a number that is read out of a name."""


def signed(headers: Mapping[str, str], raw: bytes, secrets: Sequence[str]) -> bool:
    """Tell whether one of the secrets signed exactly these bytes; an empty secret never does."""
    given = _header(headers, SIGNATURE)
    if not given.startswith(_PREFIX):
        return False
    claimed = given.removeprefix(_PREFIX).strip().lower().encode("utf-8", "replace")
    right = False
    for secret in secrets:
        if secret:
            made = hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest().encode()
            # Every secret is tried, so that the time does not tell which one was right.
            right |= hmac.compare_digest(made, claimed)
    return right


def identity(headers: Mapping[str, str], raw: bytes) -> str:
    """Return GitHub's id of the delivery; a redelivery has the same one."""
    del raw
    return _header(headers, "x-github-delivery").strip()


def event(headers: Mapping[str, str], body: Mapping[str, Any]) -> str:
    """Name the event and what was done: check_run.completed."""
    name, action = _header(headers, "x-github-event").strip(), _text(body.get("action"))
    return f"{name}.{action}" if name and action else name


def hint(headers: Mapping[str, str], body: Mapping[str, Any]) -> Hint | None:
    """Say where asking is worth while now; None if the event is of no interest."""
    about = _ABOUT.get(_header(headers, "x-github-event").strip())
    if about is None:
        return None
    branch, sha, numbers = about(body)
    if not (branch or sha or numbers):
        return None
    return Hint(
        repo=_text(_part(body, "repository").get("full_name")),
        branch=branch,
        sha=sha,
        numbers=tuple(dict.fromkeys(numbers)),
        event=event(headers, body),
    )


About = tuple[str, str, list[int]]
"""A branch, a commit and pull requests."""


def _check_run(body: Mapping[str, Any]) -> About:
    run = _part(body, "check_run")
    suite = _part(run, "check_suite")
    # `pull_requests` is empty more often than not; the commit is what counts.
    return (
        _text(suite.get("head_branch")),
        _text(run.get("head_sha")) or _text(suite.get("head_sha")),
        [*_numbers(run), *_numbers(suite)],
    )


def _headed(name: str) -> Callable[[Mapping[str, Any]], About]:
    def about(body: Mapping[str, Any]) -> About:
        part = _part(body, name)
        return _text(part.get("head_branch")), _text(part.get("head_sha")), _numbers(part)

    return about


def _status(body: Mapping[str, Any]) -> About:
    sha = _text(body.get("sha"))
    branches = [
        _text(branch.get("name"))
        for branch in _parts(body.get("branches"))
        if _part(branch, "commit").get("sha") == sha
    ]
    # Several branches may be at the commit; then only the commit tells what it is about.
    return branches[0] if len(branches) == 1 else "", sha, []


def _pull_request(body: Mapping[str, Any]) -> About:
    pull = _part(body, "pull_request")
    head = _part(pull, "head")
    numbers = _number(pull.get("number")) or _number(body.get("number"))
    return _text(head.get("ref")), _text(head.get("sha")), numbers


def _issue_comment(body: Mapping[str, Any]) -> About:
    issue = _part(body, "issue")
    on_a_pull_request = isinstance(issue.get("pull_request"), dict)
    return "", "", _number(issue.get("number")) if on_a_pull_request else []


def _merge_group(body: Mapping[str, Any]) -> About:
    group = _part(body, "merge_group")
    branch = _text(group.get("head_ref")).removeprefix(_BRANCH)
    # gh-readonly-queue/main/pr-12-<sha of the base>
    _, _, last = branch.rpartition("/")
    number = last.removeprefix("pr-").partition("-")[0] if last.startswith("pr-") else ""
    return branch, _text(group.get("head_sha")), _number(int(number) if _digits(number) else None)


def _push(body: Mapping[str, Any]) -> About:
    ref = _text(body.get("ref"))
    if not ref.startswith(_BRANCH):
        return "", "", []
    after = _text(body.get("after"))
    return ref.removeprefix(_BRANCH), after if after.strip("0") else "", []


_ABOUT: dict[str, Callable[[Mapping[str, Any]], About]] = {
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


def _header(headers: Mapping[str, str], name: str) -> str:
    if name in headers:
        return headers[name]
    return next((value for key, value in headers.items() if key.lower() == name), "")


def _part(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = body.get(name)
    return part if isinstance(part, dict) else {}


def _parts(value: object) -> Iterator[Mapping[str, Any]]:
    yield from (part for part in _list(value) if isinstance(part, dict))


def _list(value: object) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _numbers(part: Mapping[str, Any]) -> list[int]:
    pulls = _parts(part.get("pull_requests"))
    return [number for pull in pulls for number in _number(pull.get("number"))]


def _number(value: object) -> list[int]:
    return [value] if isinstance(value, int) and not isinstance(value, bool) and value > 0 else []


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
