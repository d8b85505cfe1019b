"""How GitLab signs and words its webhooks.

Owns what is read from them; must not ask anybody or keep anything. Nothing in a delivery, however
odd, makes it raise.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING, Any

from ci.forms import at, branch_of, lowered, number, text
from ci.inbox import Hint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_KEY_PREFIX = "whsec_"
_SIGNATURE = "v1,"
_NO_COMMIT = "0" * 40


def signed(headers: Mapping[str, str], raw: bytes, secrets: Sequence[str]) -> bool:
    """Tell whether one of the secrets signed it, or is shown as its token.

    A delivery that carries a signature is judged by that alone: a stolen token does not help it.
    """
    known = [secret for secret in secrets if secret]
    if "webhook-signature" in lowered(headers):
        return _rightly_signed(lowered(headers), raw, known)
    shown = lowered(headers).get("x-gitlab-token", "").encode("utf-8", "surrogateescape")
    # Each is compared, so that the time taken says nothing about which one it was.
    found = [hmac.compare_digest(shown, secret.encode()) for secret in known]
    return bool(shown) and any(found)


def identity(headers: Mapping[str, str], raw: bytes) -> str:
    """Return the id that is the same when the same delivery is sent again."""
    named = lowered(headers)
    # The signed one first: the others may be changed by whoever sends an old delivery again.
    found = named.get("webhook-id") or named.get("idempotency-key")
    if found:
        return found
    uuid = named.get("x-gitlab-event-uuid")
    # Hooks that are set off by hooks share the uuid, and are told apart by what they say.
    return f"{uuid}-{hashlib.sha256(raw).hexdigest()[:16]}" if uuid else ""


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
    """Return where it is worth while to ask now; None if it tells nothing that we wait for."""
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
    branch = branch_of(text(body, "ref")) if at(body, "tag") is not True else ""
    return Hint(branch=branch, sha=text(body, "sha"))


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
    return text(body, "project", "path_with_namespace")


def _numbers(body: dict[str, Any], *path: str) -> tuple[int, ...]:
    found = number(body, *path)
    return () if found is None else (found,)


def _rightly_signed(headers: Mapping[str, str], raw: bytes, secrets: Sequence[str]) -> bool:
    name, when = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not name or not when:
        return False
    content = f"{name}.{when}.".encode("utf-8", "surrogateescape") + raw
    shown = [
        each.removeprefix(_SIGNATURE).encode("utf-8", "surrogateescape")
        for each in headers["webhook-signature"].split()
        if each.startswith(_SIGNATURE)
    ]
    right = [
        base64.b64encode(hmac.digest(key, content, "sha256")) for key in map(_key, secrets) if key
    ]
    found = [hmac.compare_digest(given, made) for given in shown for made in right]
    return any(found)


def _key(secret: str) -> bytes:
    """Return the key that a signing token stands for; nothing if the secret is no such token."""
    if not secret.startswith(_KEY_PREFIX):
        return b""
    try:
        encoded = secret.removeprefix(_KEY_PREFIX)
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
