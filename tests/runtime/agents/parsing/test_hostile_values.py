"""No value makes reading fail, and none holds up who reads: huge, odd or endlessly repeated."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.agents.events import Retry
from runtime.agents.outcome import Ending
from runtime.agents.parsing.fields import amount, count
from runtime.agents.parsing.reset_times import reset_time
from tests.fuzzing import examples
from tests.pace import shortest
from tests.runtime.agents.recorded import ALL, NOON, lines, parser

if TYPE_CHECKING:
    from collections.abc import Callable

HUGE = "9" * 400
"""More than any float holds; Python reads it as a whole number all the same."""
ODD = (
    *(HUGE, f"-{HUGE}", "9" * 5000, "1e999", "-1e999", "NaN", "true", "null", "[]", "{}"),
    *('"\\ud800"', '"\\u0000"', "[" * 400 + "]" * 400, '{"a":' * 400 + "1" + "}" * 400),
    *('"try again at Feb 31 0000 11:11 PM (/etc)"', '"rate limit until 0001-01-01 00:00+14:00"'),
    *(f'"Reconnecting... {HUGE * 20}/5"', f'"usage limit, again in {HUGE * 20} days"'),
)
AT_ONCE = 0.5


def spoilt(event: Any, pick: Callable[[], str]) -> str:
    """Write an event as JSON with some values replaced; its type stays first."""
    if isinstance(event, dict):
        rows = [
            f"{json.dumps(key)}:{json.dumps(value) if key == 'type' else spoilt(value, pick)}"
            for key, value in sorted(event.items(), key=lambda item: item[0] != "type")
        ]
        return "{" + ",".join(rows) + "}"
    if isinstance(event, list):
        return "[" + ",".join(spoilt(each, pick) for each in event) + "]"
    return pick() or json.dumps(event)


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(run=st.sampled_from(ALL), live=st.booleans(), data=st.data())
def test_odd_values_anywhere_are_taken(
    run: tuple[str, str],
    live: bool,  # noqa: FBT001  # drawn
    data: st.DataObject,
) -> None:
    name, case = run
    places = data.draw(st.lists(st.sampled_from(("",) * 4 + ODD), min_size=40, max_size=40))
    luck = iter(places)
    reading = parser(name, live=live)
    for line in lines(name, case)[-6:]:
        if line.endswith(b"}"):
            reading.feed(spoilt(json.loads(line), lambda: next(luck, "")).encode())
            reading.used()
    json.dumps(reading.finish(1).to_json(), allow_nan=False).encode()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("claude", '{"type":"result","subtype":"success","total_cost_usd":%s}'),
        ("claude", '{"type":"assistant","message":{"id":"a","usage":{"input_tokens":%s}}}'),
        ("claude", '{"type":"rate_limit_event","rate_limit_info":{"resetsAt":%s}}'),
        ("claude", '{"type":"system","subtype":"api_retry","retry_delay_ms":%s}'),
        ("codex", '{"type":"turn.completed","usage":{"input_tokens":%s}}'),
        ("gemini", '{"type":"result","status":"success","stats":{"total_tokens":%s}}'),
        ("opencode", '{"type":"step_finish","part":{"cost":%s,"tokens":{"input":1}}}'),
        ("copilot", '{"type":"assistant.usage","data":{"outputTokens":%s}}'),
    ],
)
def test_a_number_that_no_float_holds_is_not_there(name: str, line: str) -> None:
    with pytest.raises(OverflowError):
        float(int(HUGE))
    reading = parser(name)
    reading.feed((line % HUGE).encode())
    assert json.loads(json.dumps(reading.finish(1).to_json(), allow_nan=False))


@pytest.mark.parametrize(
    "value",
    [int(HUGE), -int(HUGE), float("inf"), float("nan"), -1, True],
    ids=["huge", "huge below 0", "infinite", "none", "below 0", "truth"],
)
def test_only_what_can_be_counted_is_an_amount(value: float) -> None:
    assert amount({"n": value}, "n") is None
    assert count({"n": value}, "n") == 0


def test_a_try_with_a_number_that_cannot_be_read_is_one_all_the_same() -> None:
    with pytest.raises(ValueError, match="limit"):
        int("9" * 5000)
    line = {"type": "error", "message": f"Reconnecting... {'9' * 5000}/5 (stream disconnected)"}
    [event] = parser("codex").feed(json.dumps(line).encode())
    assert isinstance(event, Retry)
    assert (event.ending, event.attempt, event.of) == (Ending.NETWORK, 0, 0)


def test_half_a_character_in_an_identity_does_no_harm() -> None:
    said = (
        b'{"type":"assistant","message":{"id":"\\ud800","usage":{"input_tokens":1},"content":[]}}'
    )
    reading = parser("claude", live=False)
    for _ in range(2):
        reading.feed(said)
    assert reading.used()[0] is not None


@pytest.mark.parametrize(
    "words",
    [
        "reset" * 16_000,
        "again in " + "1h" * 40_000,
        "until " * 13_000,
        "resets " + " " * 80_000,
        ", url: https://x" * 5_000 + "!",
        "Reconnecting... " + "9" * 80_000,
    ],
    ids=["reset", "spans", "until", "spaces", "addresses", "digits"],
)
def test_a_long_message_about_a_limit_is_read_at_once(words: str) -> None:
    said = f"You hit your usage limit {words}"
    line = json.dumps({"type": "error", "message": said}, separators=(",", ":")).encode()
    assert shortest(lambda: parser("codex").feed(line), AT_ONCE) < AT_ONCE
    assert shortest(lambda: reset_time(said, NOON), AT_ONCE) < AT_ONCE


def test_a_long_line_of_opencodes_log_is_read_at_once() -> None:
    head = b"timestamp=2026 level=ERROR "
    line = head + b'message="stream error" ' * 2_000 + b" small=false " * 3_000 + b'error.error="'
    assert shortest(lambda: parser("opencode").feed(line), AT_ONCE) < AT_ONCE


def test_the_end_of_a_limit_is_found_after_other_words_that_begin_alike() -> None:
    said = "The presets were resetting. Your limit resets at 2026-11-18T13:00:00Z."
    assert reset_time(said, NOON) == NOON + 3600
