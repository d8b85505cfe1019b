"""What a kept delivery is about, in the one form that all senders' wordings come to. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.inbox import DeliveryState, Hint
from ci.receiver import WORDINGS, document

if TYPE_CHECKING:
    from ci.inbox import Delivery


@dataclass(frozen=True, slots=True)
class Reading:
    """What a delivery turned out to be about, or why it is about nothing."""

    hint: Hint | None = None
    elsewhere: str = ""
    """The other repository that it names."""
    learned: bool = False
    """What it says is kept already by a provider that takes it for data."""
    state: DeliveryState = DeliveryState.IGNORED
    outcome: str = ""


def read(delivery: Delivery, ours: str) -> Reading:
    """Find out what a delivery is about; `ours` is the repository that we work with, if known."""
    body = document(delivery.headers, delivery.body)
    wording = WORDINGS.get(delivery.provider)
    if body is None or wording is None:
        return Reading(state=DeliveryState.BROKEN, outcome="its body is no JSON object")
    try:
        hint = wording.hint(delivery.headers, body)
    except Exception as problem:  # noqa: BLE001  # one odd delivery must not stop all that come after it
        return Reading(
            state=DeliveryState.BROKEN, outcome=f"not understood: {type(problem).__name__}"
        )
    if hint is None:
        event = delivery.event or "it"
        return Reading(outcome=f"{event} tells nothing that anybody could wait for")
    # What happened is one question, however many events tell of it.
    hint = hint.model_copy(update={"event": ""})
    if not ours or not hint.repo or hint.repo.casefold() == ours.casefold():
        return Reading(hint=hint)
    if not hint.sha:
        return Reading(outcome=f"about {hint.repo}, not about {ours}")
    # Numbers and branches mean something else there, but a commit that somebody here waits for is
    # the same one: then the repository was renamed, or it is a fork of ours.
    return Reading(hint=Hint(sha=hint.sha), elsewhere=hint.repo)
