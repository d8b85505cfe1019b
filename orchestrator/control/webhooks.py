"""What `loopwright hooks` does: shows deliveries, and has them processed again.

Reads and writes beside a live runner. Must not act on a delivery: that is the runner's business.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from ci.forge_registry import SENDERS, webhooks_of
from ci.webhook_delivery import Delivery, DeliveryState, document
from ci.webhooks.receiver import MAX_BODY
from lifecycle.audit import Audit
from lifecycle.machine.runner_orders import DeliveriesOrder
from lifecycle.mask_values import masked
from orchestrator.config.known_secrets import masker_of
from orchestrator.control.open_store import runner_of, store_of
from orchestrator.errors import OrchestratorError

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.store.sqlite.store import SqliteStore

_NAMED = 4
"""Of several keys that may be meant, so many are named."""


class HooksError(OrchestratorError):
    """What was asked of the deliveries cannot be done."""


async def page(
    repo: Path, *, state: str | None, provider: str | None, before: int | None, limit: int
) -> tuple[tuple[int, Delivery], ...]:
    """Return deliveries with their numbers, the newest first, without bodies."""
    wanted = None if state is None else DeliveryState(state)
    async with store_of(repo) as store:
        return await store.deliveries.list(
            state=wanted, provider=provider, before=before, limit=limit
        )


async def one(repo: Path, text: str) -> Delivery:
    """Return the delivery that is meant, whole."""
    async with store_of(repo) as store:
        return await _meant(store, text)


async def again(repo: Path, text: str, *, by: str, at: float) -> tuple[str, str]:
    """Have a delivery worked on again; returns its key, and who will do it."""
    async with store_of(repo) as store:
        key = (await _meant(store, text)).key
        audit = Audit(store.trail, now=lambda: at, masker=masker_of(os.environ))
        await put_back(store, audit, key, by=by, at=at)
        return key, await _told(repo, store, by, at)


async def put_back(store: SqliteStore, audit: Audit, key: str, *, by: str, at: float) -> None:
    """Put a delivery back among those that are to be worked on."""
    # The audit first: nothing is done that it does not hold.
    await audit.record("replay", by, key, "done")
    outcome = f"to be worked on again, asked for by {by}"
    await store.deliveries.settle([key], DeliveryState.RECEIVED, outcome, at=at)


async def take_in(repo: Path, delivery: Delivery, *, by: str, source: str) -> str:
    """Keep a delivery that no forge sent; returns who will work on it.

    Nobody signed it: who may write to this repository's records may say what came.
    """
    async with store_of(repo) as store:
        masker = masker_of(os.environ)
        await Audit(store.trail, now=lambda: delivery.received_at, masker=masker).record(
            "replay", by, delivery.key, "done", f"unsigned, from {source}",
            {"event": delivery.event},
        )  # fmt: skip
        await store.deliveries.add(delivery)
        return await _told(repo, store, by, delivery.received_at)


def saved(file: Path, *, provider: str, event: str, key: str, at: float) -> Delivery:
    """Return the delivery that a saved body is."""
    raw = _read(file)
    webhooks = webhooks_of(provider)
    header = webhooks.EVENT_HEADER
    # Lists show what was done as well (check_run.completed), the header does not.
    headers = {header: event.partition(".")[0]} if header and event else {}
    body = document(headers, raw)
    if body is None:
        raise HooksError(f"{file} does not hold a JSON object; save the body as the forge shows it")
    named = webhooks.event(headers, body)
    if not named:
        raise HooksError(
            f"{file} does not say which event of {provider} it is; add --event, for example "
            "--event pull_request"
        )
    return Delivery(
        key=f"{provider}:{key}",
        provider=provider,
        event=named,
        received_at=at,
        headers=headers,
        body=raw,
    )


def form(number: int | None, delivery: Delivery) -> dict[str, Any]:
    """Return a delivery as JSON values, without its body."""
    made = delivery.model_dump(mode="json", exclude={"body"})
    return made if number is None else {"cursor": number, **made}


def body_value(delivery: Delivery) -> Any:
    """Return a body as JSON value; as text if it is none."""
    found = document(delivery.headers, delivery.body)
    return delivery.body.decode(errors="backslashreplace") if found is None else found


def body_text(delivery: Delivery) -> str:
    """Return a body for people; not yet safe for a terminal."""
    value = body_value(delivery)
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


async def _meant(store: SqliteStore, text: str) -> Delivery:
    """Find a delivery by its number in the list, its key, or how that begins."""
    kept = store.deliveries
    key = await _key(store, text)
    found = None if key is None else await kept.get(key)
    if found is None:
        raise HooksError(
            f"there is no delivery {text!r}; `loopwright hooks list` shows what there is"
        )
    return found


async def _key(store: SqliteStore, text: str) -> str | None:
    kept = store.deliveries
    if text.isascii() and text.isdigit() and int(text) < 2**63 - 1:
        for number, delivery in await kept.list(before=int(text) + 1, limit=1):
            if number == int(text):
                return delivery.key
    # Forges show ids without the provider before them.
    starts = (text, *(f"{provider}:{text}" for provider in SENDERS))
    found = [key for start in starts for key in await kept.keys(start, limit=_NAMED + 1)]
    whole = [key for key in found if key in starts]
    if len(found) > 1 and not whole:
        more = ", ..." if len(found) > _NAMED else ""
        raise HooksError(
            f"several deliveries begin with {text!r}: {', '.join(found[:_NAMED])}{more}; "
            "type more of the key"
        )
    return next(iter(whole or found), None)


async def _told(repo: Path, store: SqliteStore, by: str, at: float) -> str:
    """Tell the runner, if one is alive; returns who works on what was left."""
    runner = runner_of(repo)
    if runner is None:
        return "it is worked on when a runner starts: `loopwright up` or `loopwright serve`"
    await store.ask(None, masked(DeliveriesOrder(at=at, by=by), masker_of(os.environ)))
    return f"the runner (pid {runner.get('pid', '?')}) takes it up"


def _read(file: Path) -> bytes:
    with file.open("rb") as stream:
        raw = stream.read(MAX_BODY + 1)
    if len(raw) > MAX_BODY:
        raise HooksError(f"{file} has more than {MAX_BODY} bytes, and no forge sends that")
    return raw
