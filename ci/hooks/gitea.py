"""How Gitea and Forgejo sign and word their webhooks.

Owns what is read from them; must not ask anybody or keep anything. Nothing in a delivery, however
odd, makes it raise.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

from ci.forms import at, branch_of, lowered, number, text
from ci.inbox import Hint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NO_COMMIT = "0" * 40
_SIGNATURES = ("x-forgejo-signature", "x-gitea-signature", "x-hub-signature-256")
_DELIVERIES = ("x-forgejo-delivery", "x-gitea-delivery", "x-github-delivery")
_EVENTS = ("x-forgejo-event-type", "x-gitea-event-type", "x-forgejo-event", "x-gitea-event")
_PULL_EVENTS = ("pull_request", "issue_comment")


def signed(headers: Mapping[str, str], raw: bytes, secrets: Sequence[str]) -> bool:
    """Tell whether one of the secrets signed it; SHA-1 is not looked at.

    Of several signatures the forge's own one counts: a wrong one is not made good by another.
    """
    named = lowered(headers)
    shown = next((named[name] for name in _SIGNATURES if named.get(name)), "")
    given = shown.removeprefix("sha256=").strip().lower().encode("utf-8", "surrogateescape")
    # Each is compared, so that the time taken says nothing about which one it was.
    found = [
        hmac.compare_digest(given, hmac.new(secret.encode(), raw, "sha256").hexdigest().encode())
        for secret in secrets
        if secret
    ]
    return any(found)


def identity(headers: Mapping[str, str], raw: bytes) -> str:
    """Return the id that is the same when the same delivery is sent again."""
    del raw
    named = lowered(headers)
    return next((named[name] for name in _DELIVERIES if named.get(name)), "")


def event(headers: Mapping[str, str], body: dict[str, Any]) -> str:
    """Return the forge's name of the event: pull_request_sync.synchronized."""
    kind = _kind(headers)
    done = text(body, "action") or text(body, "state")
    return f"{kind}.{done}" if kind and done else kind


def hint(headers: Mapping[str, str], body: dict[str, Any]) -> Hint | None:
    """Return where it is worth while to ask now; None if it tells nothing that we wait for."""
    kind = _kind(headers)
    found: Hint | None = None
    if kind.startswith(_PULL_EVENTS):
        found = _pull(body)
    elif kind == "push":
        after = text(body, "after")
        branch = branch_of(text(body, "ref"))
        found = Hint(branch=branch, sha="" if after == _NO_COMMIT else after)
    elif kind == "status":
        found = Hint(sha=text(body, "sha") or text(body, "commit", "id"))
    elif kind in {"workflow_run", "workflow_job"}:
        inside = at(body, kind)
        branch = branch_of(text(inside, "head_branch"))
        found = Hint(branch=branch, sha=text(inside, "head_sha"))
    if found is None or not (found.branch or found.sha or found.numbers):
        return None
    repo = text(body, "repository", "full_name")
    return found.model_copy(update={"repo": repo, "event": event(headers, body)})


def _pull(body: dict[str, Any]) -> Hint | None:
    pull = at(body, "pull_request")
    if not isinstance(pull, dict):
        # A comment names only the issue; whether that is a pull request is said beside it.
        is_pull = at(body, "is_pull") is True or at(body, "issue", "pull_request") is not None
        found = number(body, "issue", "number")
        return Hint(numbers=(found,)) if is_pull and found is not None else None
    numbers = [number(pull, "number"), number(body, "number")]
    return Hint(
        branch=_head(pull),
        sha=text(pull, "head", "sha"),
        numbers=tuple(dict.fromkeys(each for each in numbers if each is not None)),
    )


def _head(pull: dict[str, Any]) -> str:
    ref = text(pull, "head", "ref")
    # The branch of a pull request whose branch is gone is only named in its label.
    return text(pull, "head", "label") if ref.startswith("refs/pull/") else ref


def _kind(headers: Mapping[str, str]) -> str:
    named = lowered(headers)
    return next((named[name] for name in _EVENTS if named.get(name)), "")
