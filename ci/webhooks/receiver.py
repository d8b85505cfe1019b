"""Receives webhook requests: unsigned ones are refused, signed ones are never lost.

Owns the order of the checks and what of a request is stored. Must not act on a delivery
(`ci.webhooks.dispatcher`), know a forge's wording (`ci.forge_registry.Webhooks`) or speak HTTP.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.events import clean_line
from ci.forge_registry import SENDERS, secret_variable, webhooks_of
from ci.webhook_delivery import Delivery, DeliveryState, document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ci.forge_registry import Webhooks
    from ci.webhook_delivery import Deliveries

MAX_BODY = 25 * 2**20
"""Bytes; what forges send at most."""
STORED_WITHIN = 4.0
"""Seconds; then the sender is told to send it again. Forges hang up after ten."""
MOST_STORING = 8
"""Deliveries that may wait for the store at once; their bodies are held in memory."""
_HEADERS = frozenset({"content-type", "user-agent"})
"""Stored for every sender, beside its own; never a signature, a token or a cookie."""
_HEADER_LIMIT = 500
_IDENTITY_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer to a request."""

    status: int
    """The HTTP status to answer with."""
    text: str
    """For the sender; reveals nothing to a stranger."""
    key: str = ""
    """Of the delivery, if there is one."""
    fresh: bool = False
    """It is stored, and was not known before."""
    reason: str = ""
    """For our own log: what to fix; empty if all is well."""


class Receiver:
    """Checks and stores deliveries; a delivery answered with 202 survives a crash.

    One that takes too long to store is answered with 503. Should it be stored after that, it is
    processed; when it is sent again, it is known by its key.
    """

    def __init__(
        self,
        deliveries: Deliveries,
        *,
        secrets: Mapping[str, Callable[[], tuple[str, ...]]],
        now: Callable[[], float],
        wake: Callable[[], None],
        within: float = STORED_WITHIN,
    ) -> None:
        self._deliveries = deliveries
        self._secrets = secrets
        self._now = now
        self._wake = wake
        self._within = within
        self._storing: set[asyncio.Task[bool]] = set()

    async def take(self, provider: str, headers: Mapping[str, str], raw: bytes) -> Receipt:
        """Check a request and store it."""
        if provider not in SENDERS:
            return Receipt(404, f"there are hooks only for {', '.join(SENDERS)}")
        if len(raw) > MAX_BODY:
            return too_large(provider)
        headers = {name.lower(): value for name, value in headers.items()}
        if headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
            return Receipt(400, "send the body as it is, without Content-Encoding")
        webhooks = webhooks_of(provider)
        refused = self._refused(provider, webhooks, headers, raw)
        if refused is not None:
            return refused
        return await self._keep(_delivery(provider, webhooks, headers, raw, self._now()))

    def has_secret(self, provider: str) -> bool:
        """Tell whether there is a secret to check a sender's signatures with."""
        return bool(self._secrets_of(provider))

    def _secrets_of(self, provider: str) -> tuple[str, ...]:
        known = self._secrets.get(provider)
        # Everybody knows an empty secret.
        return tuple(each for each in (known() if known else ()) if each.strip())

    def _refused(
        self, provider: str, webhooks: Webhooks, headers: Mapping[str, str], raw: bytes
    ) -> Receipt | None:
        secrets = self._secrets_of(provider)
        if not secrets:
            reason = (
                f"a {provider} hook was refused because there is no secret to check it with: set "
                f"{secret_variable(provider)} to the secret that you gave the sender"
            )
            return Receipt(401, "the signature is missing or wrong", reason=reason)
        if not webhooks.signed(headers, raw, secrets, now=self._now()):
            reason = (
                f"a {provider} hook was refused because its signature is missing, wrong or too "
                f"old: compare {secret_variable(provider)} with the secret that the sender has"
            )
            return Receipt(401, "the signature is missing or wrong", reason=reason)
        return None

    async def _keep(self, delivery: Delivery) -> Receipt:
        key = delivery.key
        if len(self._storing) >= MOST_STORING:
            reason = f"{key} was not stored: {MOST_STORING} others wait for the store"
            return Receipt(503, "it cannot be stored now: send it again", key, reason=reason)
        storing = asyncio.get_running_loop().create_task(self.store(delivery))
        self._storing.add(storing)
        storing.add_done_callback(self._forget)
        await asyncio.wait((storing,), timeout=self._within)
        if not storing.done():
            reason = f"{key} could not be stored within {self._within:g} s; its sender knows"
            return Receipt(503, "it cannot be stored now: send it again", key, reason=reason)
        try:
            fresh = storing.result()
        except Exception as problem:  # noqa: BLE001  # whatever fails in the store: not stored means not accepted
            reason = f"{key} could not be stored ({type(problem).__name__}: {problem})"
            return Receipt(503, "it cannot be stored now: send it again", key, reason=reason)
        if not fresh:
            return Receipt(202, "known already", key)
        if delivery.state is DeliveryState.BROKEN:
            return Receipt(202, f"kept, but {delivery.outcome}", key, fresh=True)
        return Receipt(202, "kept", key, fresh=True)

    async def store(self, delivery: Delivery) -> bool:
        """Keep what was checked already; False if it is known."""
        fresh = await self._deliveries.add(delivery)
        if fresh:
            self._wake()
        return fresh

    def _forget(self, storing: asyncio.Task[bool]) -> None:
        self._storing.discard(storing)
        if not storing.cancelled():
            storing.exception()  # its sender was told that it is not stored


def too_large(provider: str) -> Receipt:
    """Refuse a body beyond the limit, whether or not it was read completely."""
    return Receipt(
        413,
        f"a delivery may have at most {MAX_BODY} bytes",
        reason=f"a {provider} hook of more than {MAX_BODY} bytes was refused",
    )


def secrets_of(environ: Mapping[str, str], provider: str) -> tuple[str, ...]:
    """Return the accepted secrets; the variable separates several by spaces."""
    return tuple(environ.get(secret_variable(provider), "").split())


def _delivery(
    provider: str, webhooks: Webhooks, headers: Mapping[str, str], raw: bytes, now: float
) -> Delivery:
    body = document(headers, raw)
    broken = body is None
    return Delivery(
        key=f"{provider}:{_identity(webhooks, headers, raw)}",
        provider=provider,
        event="" if body is None else clean_line(webhooks.event(headers, body)),
        received_at=now,
        headers={
            name: value[:_HEADER_LIMIT]
            for name, value in headers.items()
            if name in _HEADERS or name in webhooks.HEADERS
        },
        body=raw,
        state=DeliveryState.BROKEN if broken else DeliveryState.RECEIVED,
        outcome="its body is not a JSON object" if broken else "",
        settled_at=now if broken else None,
    )


def _identity(webhooks: Webhooks, headers: Mapping[str, str], raw: bytes) -> str:
    given = webhooks.identity(headers, raw)
    if given and len(given) <= _IDENTITY_LIMIT and given.isascii() and given.isprintable():
        return given
    return f"sha256-{hashlib.sha256(raw).hexdigest()}"
