"""What a program tells in no event of its own, or in few words: its log, a policy, a cut answer."""

from __future__ import annotations

import pytest

from runtime.agents.events import Retry
from runtime.agents.outcome import Ending
from tests.runtime.agents.recorded import compact, lines, parser, part_of, ran

LOG = (
    'timestamp=2026-11-18T12:00:00.000Z level=ERROR run=128a301a message="stream error" '
    "providerID=p modelID=m session.id=ses_1 small={small} agent=build mode=primary "
    'error.error="AI_APICallError: {said}"'
)
LIMITED = "Rate limit reached for requests per min (RPM): Limit 3, Used 3, Requested 1."
FORBIDDEN = (
    "2026-11-18T12:00:00.000000Z ERROR codex_core::tools::router: error=exec_command failed: "
    'CreateProcess { message: "Rejected(\\"`touch x` rejected: policy forbids commands starting '
    'with `touch`\\")" }'
)
DENIED = {
    "status": "error",
    "output": "Tool execution denied by policy.",
    "error": {"type": "policy_violation", "message": "Tool execution denied by policy."},
}


@pytest.mark.parametrize(
    ("said", "ending"),
    [
        (LIMITED, Ending.RATE_LIMIT),
        ("Cannot connect to API: Unable to connect.", Ending.NETWORK),
        ("The engine is currently overloaded, please try again later", Ending.OVERLOADED),
        ("something that nobody has seen", Ending.NETWORK),
    ],
)
def test_the_log_of_opencode_tells_that_it_tries_again(said: str, ending: Ending) -> None:
    reading = parser("opencode")
    [event] = reading.feed(LOG.format(small="false", said=said).encode() + b"\n")
    assert event == Retry(ending, said)
    assert reading.trouble is not None
    assert reading.retries
    assert (reading.trouble.ending, reading.trouble.message) == (ending, said)


def test_a_failure_of_opencode_beside_the_work_does_not_count() -> None:
    reading = parser("opencode")
    reading.feed(LOG.format(small="true", said=LIMITED).encode())
    assert reading.trouble is None
    for event in part_of("opencode", "ok"):
        reading.feed(compact(event))
    assert reading.finish(0).outcome is Ending.COMPLETED


def test_opencode_that_got_past_a_limit_is_not_limited() -> None:
    reading = parser("opencode")
    reading.feed(LOG.format(small="false", said=LIMITED).encode())
    for event in part_of("opencode", "ok"):
        reading.feed(compact(event))
    assert reading.trouble is None
    assert reading.finish(0).outcome is Ending.COMPLETED


def test_a_context_of_opencode_that_is_full_three_times_is_hopeless() -> None:
    full = next(each for each in lines("opencode", "e_context") if b'"type":"error"' in each)
    reading, seen = parser("opencode"), []
    for _ in range(3):
        reading.feed(full)
        seen.append(reading.retries)
    assert seen == [False, False, True]
    assert reading.trouble is not None
    assert reading.trouble.ending is Ending.CONTEXT_OVERFLOW


@pytest.mark.parametrize(
    "told",
    [
        "The user has specified a rule which prevents you from using this specific tool call.",
        "The user rejected permission to use it.",
    ],
)
def test_opencode_may_tell_a_refused_permission_in_the_tool(told: str) -> None:
    step, tool, *_ = part_of("opencode", "failtool")
    tool["part"]["state"] = {"status": "error", "error": told}
    for live in (True, False):
        found = ran("opencode", step, tool, live=live)
        assert (found.outcome, found.denied) == (Ending.DENIED, ("bash",))


def test_the_log_of_codex_tells_of_a_forbidden_command() -> None:
    *before, last = part_of("codex", "ok")
    for live in (True, False):
        reading = parser("codex", live=live)
        for event in before:
            reading.feed(compact(event))
        reading.feed(FORBIDDEN.encode())
        reading.feed(compact(last))
        found = reading.finish(0)
        assert (found.outcome, found.denied) == (Ending.DENIED, ("command_execution",))


def test_a_policy_of_gemini_denies_a_tool() -> None:
    events = part_of("gemini", "ok")
    for each in events:
        if each["type"] == "tool_result":
            each.update(DENIED)
    for live in (True, False):
        found = ran("gemini", *events, live=live)
        assert (found.outcome, found.denied) == (Ending.DENIED, ("run_shell_command",))


def test_a_cut_answer_of_gemini_is_trouble_with_the_network() -> None:
    *before, last = part_of("gemini", "e_drop")
    last |= {"status": "error", "error": {"type": "unknown", "message": "[API Error: terminated]"}}
    found = ran("gemini", *before, last, code=1)
    assert found.outcome is Ending.NETWORK
    assert "cut off" in found.detail


def test_an_address_says_nothing_to_the_reader_of_a_refusal_of_codex() -> None:
    assert ran("codex", *part_of("codex", "e_auth"), code=1).detail.endswith("x-api-key")
