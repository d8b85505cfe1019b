"""What people are told when what they ask for is not done."""

from __future__ import annotations

import pytest

from lifecycle.engine.operation_log import OPERATIONS
from lifecycle.machine import events as on
from lifecycle.machine import states as st
from lifecycle.machine.tally import Tally
from lifecycle.needs_person import in_vain, refusal
from tests.lifecycle.every_state import EVERY

PAUSE = on.PauseRequested(at=2.0, by="ada")
STOP = on.StopRequested(at=2.0, by="ada", pause=True)
RESUME = on.ResumeRequested(at=2.0, by="ada")


def preparing(wanted: st.Wanted, *, stop: bool = False) -> st.Preparing:
    return st.Preparing(tally=Tally(attempt=3, wanted=wanted, wanted_stop=stop))


@pytest.mark.parametrize(
    ("state", "event", "told"),
    [
        (st.Completed(summary="s"), PAUSE, "a is done; there is nothing to pause"),
        (st.Accepted(commit="c"), STOP, "a is accepted; there is nothing to stop"),
        (st.Queued(), RESUME, "a is queued; there is nothing to resume"),
        (
            st.Suspended(inner=st.Queued(), since=1.0, stopped=True),
            PAUSE,
            "a is stopped already; continue with: loopwright resume a",
        ),
        (
            preparing(st.Wanted.PAUSE),
            PAUSE,
            "a is starting (attempt 3); it will be paused after this attempt already",
        ),
        (
            preparing(st.Wanted.HOLD, stop=True),
            STOP,
            "a is starting (attempt 3); it will be stopped after this attempt already",
        ),
        (
            preparing(st.Wanted.REJECT),
            PAUSE,
            "a is starting (attempt 3); it will be rejected after this attempt already",
        ),
    ],
)
def test_who_asks_in_vain_is_told_what_is_the_case(
    state: st.State, event: on.PersonEvent, told: str
) -> None:
    assert in_vain("a", state, event) == told


@pytest.mark.parametrize(
    "event", [on.AcceptRequested(at=2.0), on.RejectRequested(at=2.0)], ids=["accept", "reject"]
)
def test_to_accept_or_reject_twice_is_not_refused(event: on.PersonEvent) -> None:
    assert in_vain("a", st.Completed(summary="s"), event) == ""


def test_every_request_has_words_in_every_state() -> None:
    for kind in OPERATIONS:
        text = {"text": "x"} if kind in {on.Answered, on.Guided} else {}
        for state, *_ in EVERY:
            told = refusal("a", state, kind(at=1.0, **text))
            assert told.startswith("a ")
            assert "; " in told
