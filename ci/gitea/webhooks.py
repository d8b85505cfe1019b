"""How Gitea and Forgejo sign and phrase their webhooks.

Owns what is read from them; must not send requests or store anything. Nothing in a delivery,
however odd, makes it raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci.forge.json_fields import at, branch_of, lowered, number, text
from ci.webhook_delivery import Hint
from ci.webhooks.signatures import is_signed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEADERS = frozenset({
    "x-gitea-event", "x-gitea-event-type", "x-gitea-delivery",
    "x-forgejo-event", "x-forgejo-event-type", "x-forgejo-delivery",
    "x-github-event", "x-github-delivery",
})  # fmt: skip
"""Both also send those of GitHub, for tools that know no others."""
EVENT_HEADER = "x-gitea-event"
_NO_COMMIT = "0" * 40
_SIGNATURES = ("x-forgejo-signature", "x-gitea-signature", "x-hub-signature-256")
_DELIVERIES = ("x-forgejo-delivery", "x-gitea-delivery", "x-github-delivery")
_EVENTS = ("x-forgejo-event-type", "x-gitea-event-type", "x-forgejo-event", "x-gitea-event")
_PULL_EVENTS = ("pull_request", "issue_comment")


def signed(
    headers: Mapping[str, str], raw: bytes, secrets: Sequence[str], *, now: float = 0.0
) -> bool:
    """Return whether one of the secrets signed it; SHA-1 is not looked at.

    Of several signatures the forge's own one counts: another one does not make up for a wrong one.
    """
    del now  # the time is not signed
    named = lowered(headers)
    shown = next((named[name] for name in _SIGNATURES if named.get(name)), "")
    return is_signed(shown.removeprefix("sha256="), raw, secrets)


def identity(headers: Mapping[str, str], raw: bytes) -> str:
    """Return the id, which is the same when a delivery is sent again."""
    del raw
    named = lowered(headers)
    return next((named[name] for name in _DELIVERIES if named.get(name)), "")


def event(headers: Mapping[str, str], body: dict[str, Any]) -> str:
    """Return the forge's name of the event: pull_request_sync.synchronized."""
    kind = _kind(headers)
    done = text(body, "action") or text(body, "state")
    return f"{kind}.{done}" if kind and done else kind


def hint(headers: Mapping[str, str], body: dict[str, Any]) -> Hint | None:
    """Return what to check now; None for an irrelevant event."""
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
    # A deleted branch is only named in the label of its pull request.
    return text(pull, "head", "label") if ref.startswith("refs/pull/") else ref


def _kind(headers: Mapping[str, str]) -> str:
    named = lowered(headers)
    return next((named[name] for name in _EVENTS if named.get(name)), "")
