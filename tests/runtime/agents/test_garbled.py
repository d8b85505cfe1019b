"""Whatever a program writes, reading it never fails, and an agent's words decide nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.agents.events import UnknownEvent
from runtime.agents.outcome import Ending
from tests.fuzzing import examples
from tests.runtime.agents.recorded import ALL, FOLDER, compact, lines, parser, part_of, ran

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.agents.outcome import RunOutcome

NAMES = ("claude", "codex", "gemini", "opencode", "copilot", "command")
WORDS = (
    "API Error: 429 rate limit exceeded",
    "401 Unauthorized: invalid x-api-key",
    "You've hit your usage limit. try again at 11:06 AM.",
    "Prompt is too long, context_length_exceeded",
    "Error: Reconnecting... 1/5 (stream disconnected before completion)",
    "Credit balance is too low",
    '{"type":"result","is_error":true,"subtype":"error_max_turns"}',
    '{"type":"turn.failed","error":{"message":"Quota exceeded."}}',
    "Loop detected, stopping execution",
    '"type":"error" "is_api_error_message":true "synthetic":true "permission_denials":[1]',
)
CUTS = settings(
    max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow], deadline=None
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)


def finished(name: str, said: bytes, code: int, *, live: bool) -> RunOutcome:
    reading = parser(name, live=live)
    for line in said.split(b"\n"):
        reading.feed(line)
    found = reading.finish(code, stderr_tail=said[-500:].decode("utf-8", "replace"))
    json.dumps(found.to_json(), allow_nan=False).encode()
    assert isinstance(found.outcome, Ending)
    found.last_words.encode()
    assert "\x1b" not in found.last_words + found.detail
    return found


@CUTS
@given(
    run=st.sampled_from(ALL),
    start=st.integers(0, 30_000),
    length=st.integers(0, 30_000),
    flips=st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 255)), max_size=12),
    code=st.integers(-20, 256),
    live=st.booleans(),
)
def test_a_cut_or_damaged_transcript_is_judged_all_the_same(  # noqa: PLR0913, PLR0917  # drawn
    run: tuple[str, str],
    start: int,
    length: int,
    flips: list[tuple[int, int]],
    code: int,
    live: bool,  # noqa: FBT001  # drawn
) -> None:
    name, case = run
    said = bytearray((FOLDER / name / f"{case}.stdout").read_bytes())
    for at, byte in flips:
        said[at % len(said)] = byte
    finished(name, bytes(said)[start : start + length], code, live=live)


@CUTS
@given(name=st.sampled_from(NAMES), said=st.binary(max_size=400), code=st.integers(-70, 300))
def test_any_bytes_are_judged(name: str, said: bytes, code: int) -> None:
    finished(name, said, code, live=True)


def _mangled(event: Any, others: Iterator[Any]) -> Any:
    """Replace some values of an event by others of any type."""
    if isinstance(event, dict) and event:
        return {key: _mangled(value, others) for key, value in event.items()}
    if isinstance(event, list) and event:
        return [_mangled(value, others) for value in event]
    other = next(others, ...)
    return event if other is ... else other


@CUTS
@given(run=st.sampled_from([each for each in ALL if each[1] != "text"]), data=st.data())
def test_values_of_any_type_are_taken(run: tuple[str, str], data: st.DataObject) -> None:
    name, case = run
    found = [json.loads(line) for line in lines(name, case) if line.endswith(b"}")][-6:]
    reading = parser(name)
    for event in found:
        others = iter(data.draw(st.lists(st.just(...) | JSON, max_size=25)))
        mangled = _mangled(event, others)
        mangled["type"] = event["type"]
        reading.feed(json.dumps(mangled).encode())
    json.dumps(reading.finish(1).to_json(), allow_nan=False)


@pytest.mark.parametrize("name", NAMES[:-1])
def test_an_unknown_event_is_kept_raw_and_changes_nothing(name: str) -> None:
    strange = b'{"type":"from.the.future","result":{"is_error":true},"error":"429"}'
    if name == "gemini":
        strange = b'{"type":"from.the.future","is_error":true}'
    reading = parser(name)
    assert reading.feed(strange) == (UnknownEvent("from.the.future", strange),)
    good = [line for line in lines(name, "ok") if line]
    found = ran(name, good[0], strange, *good[1:])
    assert (found.outcome, found.notes) == (Ending.COMPLETED, {"unknown": 1})


@pytest.mark.parametrize(
    "line",
    [b"[" * 100_000, b'{"a":' * 50_000, b'{"type":"result', b"\0" * 100, b'{"type":1}', b"null"],
    ids=["lists", "objects", "cut", "zeros", "number", "null"],
)
@pytest.mark.parametrize("name", NAMES)
def test_hostile_lines_are_passed_by(name: str, line: bytes) -> None:
    assert finished(name, line, 1, live=True).outcome is not Ending.COMPLETED


def _slots(name: str, words: str) -> list[dict[str, Any] | bytes]:
    """Return a good run whose agent and tools say these words."""
    run = part_of(name, "ok")
    for event in run:
        part = event.get("part", {})
        item = event.get("item", {})
        data = event.get("data", {})
        if name == "claude" and event["type"] in ("assistant", "user"):
            for block in event["message"]["content"]:
                block.update({key: words for key in ("text", "content") if key in block})
        if name == "claude" and event["type"] == "result":
            event["result"] = words
        for fields in (item, data, part, event):
            fields.update(
                {
                    key: words
                    for key in ("text", "aggregated_output", "content", "output", "command")
                    if isinstance(fields.get(key), str)
                }
            )
        if "state" in part:
            part["state"]["output"] = words
        if isinstance(data.get("result"), dict):
            data["result"]["content"] = words
    return list(run)


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("name", NAMES[:-1])
def test_what_the_agent_of_a_good_run_says_is_never_a_failure(
    name: str,
    words: str,
    live: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    run = _slots(name, words)
    assert words.encode()[:8] in b"".join(compact(each) for each in run if isinstance(each, dict))
    found = ran(name, *run, stderr=f"{words}\n" * 3, live=live)
    assert found.outcome is Ending.COMPLETED
    assert found.reset_at is None
    assert found.last_words == words.strip()


@pytest.mark.parametrize("words", WORDS)
def test_what_any_command_says_is_never_a_failure(words: str) -> None:
    assert ran("command", words.encode(), stderr=words).outcome is Ending.COMPLETED


def test_a_piece_of_an_event_is_not_taken_for_a_complaint_of_the_program() -> None:
    piece = b'ntent":"API Error: 429 rate limit exceeded","is_error":false}]},"session_id":"x"}'
    found = ran("claude", lines("claude", "ok")[0], piece, code=1)
    assert (found.outcome, found.notes) == (Ending.CRASH, {"garbled": 1})


def test_words_are_cleaned_and_cut() -> None:
    said = "start \x1b[31mred\x1b[0m \u202e\udcff" + "x" * 50_000 + " end"
    event = {"type": "item.completed", "item": {"type": "agent_message", "text": said}}
    found = ran("codex", json.dumps(event).encode(), {"type": "turn.completed"})
    assert found.last_words.startswith("start red ?x")
    assert found.last_words.endswith("x end")
    assert len(found.last_words) <= 4000
