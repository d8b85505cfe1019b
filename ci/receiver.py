"""Takes webhook requests in: nothing unsigned is looked at, nothing signed is lost.

Owns the order of the checks and what of a request is kept. Must not act on a delivery
(`ci.dispatch`), know a forge's wording (`ci.hooks`) or speak HTTP.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs

from ci.events import clean_line
from ci.hooks import generic, gitea, github, gitlab
from ci.inbox import Delivery, DeliveryState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ci.inbox import Deliveries, Hint

MAX_BODY = 25 * 2**20
"""Bytes; what forges send at most."""
_KEPT_HEADERS = frozenset(
    {
        "content-type", "user-agent",
        "x-github-event", "x-github-delivery", "x-github-hook-id",
        "x-github-hook-installation-target-type",
        "x-gitlab-event", "x-gitlab-event-uuid", "x-gitlab-webhook-uuid", "x-gitlab-instance",
        "idempotency-key",
        "x-gitea-event", "x-gitea-event-type", "x-gitea-delivery",
        "x-forgejo-event", "x-forgejo-event-type", "x-forgejo-delivery",
        "webhook-id", "webhook-timestamp",
    }
)  # fmt: skip
"""What says something; never a signature, a token or a cookie."""
_HEADER_LIMIT = 500
_IDENTITY_LIMIT = 200
_FORM = "application/x-www-form-urlencoded"


class Wording(Protocol):
    """How one kind of sender words its deliveries: a module of `ci.hooks`."""

    def identity(self, headers: Mapping[str, str], raw: bytes) -> str:
        """Return the sender's id of the delivery; nothing if there is none."""
        ...

    def event(self, headers: Mapping[str, str], body: dict[str, Any]) -> str:
        """Return the sender's name of what happened."""
        ...

    def hint(self, headers: Mapping[str, str], body: dict[str, Any]) -> Hint | None:
        """Return where it is worth while to ask now; None for what is of no interest."""
        ...


WORDINGS: dict[str, Wording] = {
    "github": github,
    "gitlab": gitlab,
    "gitea": gitea,
    "generic": generic,
}
"""By the last part of the path that a sender is told to post to."""


@dataclass(frozen=True, slots=True)
class Reception:
    """What became of a request."""

    status: int
    """The HTTP status to answer with."""
    text: str
    """For the sender; tells a stranger nothing."""
    key: str = ""
    """Of the delivery, if there is one."""
    fresh: bool = False
    """It is kept, and was not known before."""
    reason: str = ""
    """For our own log: what to mend; nothing if all is well."""


class Receiver:
    """Checks and keeps deliveries; what it answered with 202 survives a crash."""

    def __init__(
        self,
        deliveries: Deliveries,
        *,
        secrets: Mapping[str, Callable[[], tuple[str, ...]]],
        now: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self._deliveries = deliveries
        self._secrets = secrets
        self._now = now
        self._wake = wake

    async def take(self, provider: str, headers: Mapping[str, str], raw: bytes) -> Reception:
        """Judge a request and keep it."""
        wording = WORDINGS.get(provider)
        if wording is None:
            return Reception(404, f"there are hooks for {', '.join(WORDINGS)} only")
        if len(raw) > MAX_BODY:
            return too_large(provider)
        headers = {name.lower(): value for name, value in headers.items()}
        if headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
            return Reception(400, "send the body as it is, without Content-Encoding")
        refused = self._refused(provider, headers, raw)
        if refused is not None:
            return refused
        return await self._keep(_delivery(provider, wording, headers, raw, self._now()))

    def _refused(self, provider: str, headers: Mapping[str, str], raw: bytes) -> Reception | None:
        known = self._secrets.get(provider)
        # An empty secret is one that everybody knows.
        secrets = tuple(each for each in (known() if known else ()) if each.strip())
        if not secrets:
            reason = (
                f"a {provider} hook was refused because there is no secret to check it with: set "
                f"{secret_variable(provider)} to the secret that you gave the sender"
            )
            return Reception(401, "the signature is missing or wrong", reason=reason)
        if not self._signed(provider, headers, raw, secrets):
            reason = (
                f"a {provider} hook was refused because its signature is missing, wrong or too "
                f"old: compare {secret_variable(provider)} with the secret that the sender has"
            )
            return Reception(401, "the signature is missing or wrong", reason=reason)
        return None

    def _signed(
        self, provider: str, headers: Mapping[str, str], raw: bytes, secrets: Sequence[str]
    ) -> bool:
        match provider:
            case "github":
                return github.signed(headers, raw, secrets)
            case "gitlab":
                return gitlab.signed(headers, raw, secrets)
            case "gitea":
                return gitea.signed(headers, raw, secrets)
            case _:
                return generic.signed(headers, raw, secrets, now=self._now())

    async def _keep(self, delivery: Delivery) -> Reception:
        key = delivery.key
        try:
            fresh = await self._deliveries.add(delivery)
        except Exception as problem:  # noqa: BLE001  # whatever the store's trouble is: not kept is not accepted
            reason = f"{key} could not be kept ({type(problem).__name__}: {problem})"
            return Reception(503, "it cannot be kept now: send it again", key, reason=reason)
        if not fresh:
            return Reception(202, "known already", key)
        self._wake()
        if delivery.state is DeliveryState.BROKEN:
            return Reception(202, f"kept, but {delivery.outcome}", key, fresh=True)
        return Reception(202, "kept", key, fresh=True)


def too_large(provider: str) -> Reception:
    """Refuse a body beyond the limit; also for who stopped reading it there."""
    return Reception(
        413,
        f"a delivery may have {MAX_BODY} bytes",
        reason=f"a {provider} hook of more than {MAX_BODY} bytes was refused",
    )


def secrets_of(environ: Mapping[str, str], provider: str) -> tuple[str, ...]:
    """Return the secrets that are believed, separated by spaces while one takes over."""
    return tuple(environ.get(secret_variable(provider), "").split())


def secret_variable(provider: str) -> str:
    """Name the environment variable that holds a provider's hook secrets."""
    return f"LOOPWRIGHT_{provider.upper()}_HOOK_SECRET"


def document(headers: Mapping[str, str], raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a body, sent plainly or as a form; None if there is none."""
    text: bytes | str = raw
    try:
        if headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM:
            text = parse_qs(raw.decode(), strict_parsing=True, max_num_fields=16)["payload"][0]
        found = json.loads(text)
    except (ValueError, KeyError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _delivery(
    provider: str, wording: Wording, headers: Mapping[str, str], raw: bytes, now: float
) -> Delivery:
    body = document(headers, raw)
    broken = body is None
    return Delivery(
        key=f"{provider}:{_identity(wording, headers, raw)}",
        provider=provider,
        event="" if body is None else clean_line(wording.event(headers, body)),
        received_at=now,
        headers={
            name: value[:_HEADER_LIMIT] for name, value in headers.items() if name in _KEPT_HEADERS
        },
        body=raw,
        state=DeliveryState.BROKEN if broken else DeliveryState.RECEIVED,
        outcome="its body is no JSON object" if broken else "",
        settled_at=now if broken else None,
    )


def _identity(wording: Wording, headers: Mapping[str, str], raw: bytes) -> str:
    given = wording.identity(headers, raw)
    if given and len(given) <= _IDENTITY_LIMIT and given.isascii() and given.isprintable():
        return given
    return f"sha256-{hashlib.sha256(raw).hexdigest()}"
