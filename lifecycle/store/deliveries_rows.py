"""Deliveries as rows of plain values, with bodies packed where that saves room. Pure."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from ci.inbox import Delivery, DeliveryState, Hint
from lifecycle.errors import StoreDamagedError
from lifecycle.store.rows import from_json, storable, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lifecycle.store.rows import Row

HEAD_COLUMNS = (
    "cursor", "key", "provider", "event", "received_at", "state", "outcome", "hint", "settled_at",
    "headers",
)  # fmt: skip
"""All but the body."""
COLUMNS = (*HEAD_COLUMNS, "packed", "body")
_WORTH_PACKING = 512
"""Bytes from which on packing a body is tried."""
_QUICK = 1
"""Of zlib's levels the one that costs least: a forge's JSON shrinks to a fourth by it as well."""
_LAST = "\U0010ffff"


def delivery_row(delivery: Delivery) -> Row:
    """Return the row of a delivery, in the order of `COLUMNS` after the cursor, not packed."""
    return (
        storable(delivery.key),
        storable(delivery.provider),
        storable(delivery.event),
        delivery.received_at,
        delivery.state.value,
        storable(delivery.outcome),
        hint_text(delivery.hint),
        delivery.settled_at,
        to_json(delivery.headers),
        0,
        delivery.body,
    )


def packed(row: Row) -> Row:
    """Return the row with its body packed, if that makes it smaller."""
    body: bytes = row[-1]
    if len(body) < _WORTH_PACKING:
        return row
    small = zlib.compress(body, _QUICK)
    return (*row[:-2], 1, small) if len(small) < len(body) else row


def row_delivery(row: Sequence[Any]) -> Delivery:
    """Return the delivery of a row of `COLUMNS`, or of `HEAD_COLUMNS` with an empty body."""
    _, key, provider, event, received_at, state, outcome, hint, settled_at, headers, *rest = row
    return Delivery(
        key=key,
        provider=provider,
        event=event,
        received_at=received_at,
        headers=from_json(headers),
        body=_body(key, *rest) if rest else b"",
        state=DeliveryState(state),
        outcome=outcome,
        hint=None if hint is None else Hint.model_validate(from_json(hint)),
        settled_at=settled_at,
    )


def hint_text(hint: Hint | None) -> str | None:
    """Return a hint as JSON."""
    return None if hint is None else to_json(hint.model_dump(mode="json"))


def settled(state: DeliveryState, at: float) -> float | None:
    """Return since when it is settled; what is to be worked on again is not."""
    return None if state is DeliveryState.RECEIVED else at


def key_span(text: str) -> tuple[str, str]:
    """Return the first key that begins with the text, and the first after all of those."""
    text = storable(text)
    return text, text + _LAST


def up_to(most_bytes: int, found: Iterable[Delivery]) -> Iterator[Delivery]:
    """Return the first of them, as many as make so many bytes of bodies; at least one."""
    size = 0
    for each in found:
        if size and size + len(each.body) > most_bytes:
            return
        size += len(each.body)
        yield each


def _body(key: str, is_packed: int, body: bytes) -> bytes:
    if not is_packed:
        return body
    try:
        return zlib.decompress(body)
    except zlib.error as problem:
        raise StoreDamagedError(f"the stored body of {key} is damaged ({problem})") from problem
