"""How GitLab signs and phrases its webhooks.

Owns what is read from them; must not send requests or store anything. Nothing in a delivery,
however odd, makes it raise.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from ci.forge.json_fields import at, branch_of, lowered, number, text
from ci.remote_url import parse
from ci.webhook_delivery import Hint
from ci.webhooks.signatures import STANDARD, any_equal, is_standard_signed, key_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEADERS = frozenset({
    "x-gitlab-event", "x-gitlab-event-uuid", "x-gitlab-webhook-uuid", "x-gitlab-instance",
    "idempotency-key", "webhook-id", "webhook-timestamp",
})  # fmt: skip
EVENT_HEADER = "x-gitlab-event"
_NO_COMMIT = "0" * 40
_OF_PULL = re.compile(r"refs/merge-requests/([0-9]{1,12})/")


def signed(
    headers: Mapping[str, str], raw: bytes, secrets: Sequence[str], *, now: float = 0.0
) -> bool:
    """Return whether one of the secrets signed it, or is shown as its token.

    A delivery with a signature is judged by that alone: a stolen token does not help.
    """
    del now  # an old delivery is known by its signed id
    named, known = lowered(headers), [secret for secret in secrets if secret]
    if STANDARD in named:
        return is_standard_signed(
            named, raw, [key_of(secret, unpadded=True) or b"" for secret in known]
        )
    shown = named.get("x-gitlab-token", "")
    return bool(shown) and any_equal([shown], known)


def identity(headers: Mapping[str, str], raw: bytes) -> str:
    """Return the id, which is the same when a delivery is sent again."""
    found = given_id(headers)
    if found:
        return found
    uuid = lowered(headers).get("x-gitlab-event-uuid")
    # Webhooks triggered by webhooks share the uuid, and differ in their bodies.
    return f"{uuid}-{hashlib.sha256(raw).hexdigest()[:16]}" if uuid else ""


def given_id(headers: Mapping[str, str]) -> str:
    """Return the id that GitLab gave it; empty where the server is too old."""
    named = lowered(headers)
    # The signed one first: a replayed delivery may have other values in the others.
    return named.get("webhook-id") or named.get("idempotency-key", "")


def event(headers: Mapping[str, str], body: dict[str, Any]) -> str:
    """Return the forge's name of the event: merge_request.update, pipeline.failed."""
    kind = text(body, "object_kind")
    if not kind:
        name = lowered(headers).get("x-gitlab-event", "")
        kind = name.removesuffix(" Hook").strip().lower().replace(" ", "_")
    done = (
        text(body, "object_attributes", "action")
        or text(body, "object_attributes", "status")
        or text(body, "build_status")
    )
    return f"{kind}.{done}" if kind and done else kind


def hint(headers: Mapping[str, str], body: dict[str, Any]) -> Hint | None:
    """Return what to check now; None for an irrelevant event."""
    read = _READERS.get(event(headers, body).partition(".")[0])
    found = read(body) if read else None
    if found is None or not (found.branch or found.sha or found.numbers):
        return None
    return found.model_copy(update={"repo": _repo(body), "event": event(headers, body)})


def _pipeline(body: dict[str, Any]) -> Hint:
    inside = at(body, "object_attributes")
    return Hint(
        branch=branch_of(text(inside, "ref")) if at(inside, "tag") is not True else "",
        # The pipeline of a merged result runs on a commit of its own.
        sha=text(body, "merge_request", "last_commit", "id") or text(inside, "sha"),
        numbers=_numbers(body, "merge_request", "iid"),
    )


def _job(body: dict[str, Any]) -> Hint:
    ref = text(body, "ref")
    # The commit of a merged result or of a train is none that anybody waits for.
    pull = _OF_PULL.match(ref)
    return Hint(
        branch=branch_of(ref) if at(body, "tag") is not True else "",
        sha=text(body, "sha"),
        numbers=(int(pull[1]),) if pull else (),
    )


def _merge_request(body: dict[str, Any]) -> Hint:
    return Hint(
        branch=text(body, "object_attributes", "source_branch"),
        sha=text(body, "object_attributes", "last_commit", "id"),
        numbers=_numbers(body, "object_attributes", "iid"),
    )


def _note(body: dict[str, Any]) -> Hint | None:
    if text(body, "object_attributes", "noteable_type") != "MergeRequest":
        return None
    return Hint(
        branch=text(body, "merge_request", "source_branch"),
        sha=text(body, "merge_request", "last_commit", "id"),
        numbers=_numbers(body, "merge_request", "iid"),
    )


def _push(body: dict[str, Any]) -> Hint:
    after = text(body, "after")
    return Hint(branch=branch_of(text(body, "ref")), sha="" if after == _NO_COMMIT else after)


_READERS = {
    "pipeline": _pipeline,
    "build": _job,
    "job": _job,
    "merge_request": _merge_request,
    "note": _note,
    "push": _push,
}


def _repo(body: dict[str, Any]) -> str:
    named = text(body, "project", "path_with_namespace")
    if named:
        return named
    # Jobs have no project on older servers; the address for ssh has no folder of the server in it.
    remote = parse(text(body, "repository", "git_ssh_url"))
    return remote.path if remote is not None else ""


def _numbers(body: dict[str, Any], *path: str) -> tuple[int, ...]:
    found = number(body, *path)
    return () if found is None else (found,)
