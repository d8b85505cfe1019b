"""What each program does that fools a reader of its words or its exit code alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime.agents.events import Denied, Limit, Retry, ToolCall, ToolResult, Usage
from runtime.agents.outcome import Ending, Tokens, UsageScope, with_breakpoint
from runtime.agents.parsing import error_signs
from tests.runtime.agents.recorded import NOON, compact, lines, parser, part_of, ran, replay

if TYPE_CHECKING:
    from runtime.agents.events import Event

CLAUDE_OK = part_of("claude", "ok", "result")[0]
INIT = {"type": "system", "subtype": "init", "session_id": "s", "model": "m"}
HTTP = {
    400: "crash",
    401: "auth",
    403: "auth",
    429: "rate_limit",
    500: "overloaded",
    503: "overloaded",
    529: "overloaded",
}


def events(name: str, case: str) -> list[Event]:
    reading = parser(name)
    return [event for line in lines(name, case) for event in reading.feed(line)]


# --- claude -----------------------------------------------------------------------------------


def test_claude_calls_an_api_error_a_success() -> None:
    result = part_of("claude", "e_overloaded", "result")[0]
    assert result["subtype"] == "success"
    assert ran("claude", INIT, result, code=1).outcome is Ending.OVERLOADED


def test_claude_calls_a_cut_stream_completed() -> None:
    result = part_of("claude", "e_drop", "result")[0]
    assert (result["terminal_reason"], "result" in result) == ("completed", False)
    assert ran("claude", INIT, result, code=1).outcome is Ending.NETWORK


def test_claude_exits_0_when_interrupted() -> None:
    assert replay("claude", "sig_INT").outcome is Ending.KILLED


def test_an_answer_of_claude_in_several_events_is_counted_once() -> None:
    usages = [each for each in events("claude", "ok") if isinstance(each, Usage)]
    steps = [each for each in usages if each.scope is UsageScope.STEP]
    assert len(part_of("claude", "ok", "assistant")) == 3
    assert len(steps) == 2
    cut = ran("claude", *part_of("claude", "ok", "system", "assistant"), code=-9)
    assert cut.usage == Tokens(2400, 2, 2000, 0, 4402)


def test_the_money_of_a_resumed_claude_session_is_not_paid_twice() -> None:
    result = part_of("claude", "res2", "result")[0]
    assert result["total_cost_usd"] == 0.01096
    assert ran("claude", result).cost_usd == 0.00548


def test_an_older_claude_tells_the_sessions_money_and_is_known_to() -> None:
    result = {**part_of("claude", "res2", "result")[0]}
    del result["model_usage_since_last_result"]
    found = ran("claude", result)
    assert (found.cost_usd, found.cost_scope) == (0.01096, UsageScope.SESSION)
    assert (found.usage, found.usage_scope) == (Tokens(1200, 34, 0, 0, 1234), UsageScope.RUN)


def test_a_warning_of_a_limit_is_no_limit() -> None:
    (limit,) = [each for each in events("claude", "oauth_warn") if isinstance(each, Limit)]
    assert limit == Limit(reached=False, reset_at=1795000000.0, window="five_hour", used=0.92)


def test_claude_names_a_limit_in_its_own_retries() -> None:
    retries = [each for each in events("claude", "e_rate_limit") if isinstance(each, Retry)]
    assert len(retries) == 10
    assert (retries[0].attempt, retries[0].of, retries[0].ending) == (1, 10, Ending.RATE_LIMIT)
    assert retries[0].delay is not None


def test_a_refused_tool_that_the_agent_got_past_is_no_failure() -> None:
    denial, *_ = [each for each in events("claude", "noperm") if isinstance(each, Denied)]
    assert denial.tool == "Bash"
    passed = [
        *lines("claude", "noperm")[:-2],
        *(line for line in lines("claude", "ok") if b'"tool_use' in line or b"tool_result" in line),
        lines("claude", "noperm")[-2],
    ]
    for live in (True, False):
        found = ran("claude", *passed, live=live)
        assert (found.outcome, found.denied) == (Ending.COMPLETED, ("Bash",))


def test_a_refused_tool_is_seen_in_the_last_event_alone() -> None:
    shown = [
        line for line in lines("claude", "noperm") if b'"subtype":"permission_denied"' not in line
    ]
    assert len(shown) == len(lines("claude", "noperm")) - 1
    assert ran("claude", *shown).outcome is Ending.DENIED


def test_a_refusal_of_the_model_is_told() -> None:
    assert ran("claude", {**CLAUDE_OK, "stop_reason": "refusal"}).outcome is Ending.REFUSED


def test_words_of_an_api_error_are_not_the_agents() -> None:
    found = replay("claude", "e_billing")
    assert (found.last_words, found.detail) == ("", "Credit balance is too low")


def test_plain_text_of_a_good_run_is_the_agents_words() -> None:
    found = replay("claude", "text")
    assert (found.outcome, found.last_words) == (
        Ending.COMPLETED,
        "Done: wrote communications.json.",
    )


# --- codex ------------------------------------------------------------------------------------


def test_an_error_of_codex_is_not_its_end() -> None:
    trouble = part_of("codex", "e_overloaded", "error")
    good = part_of("codex", "ok")
    assert ran("codex", *good[:3], *trouble, *good[3:]).outcome is Ending.COMPLETED


def test_codex_waits_for_ever_and_the_reason_is_what_it_last_said() -> None:
    waiting = [line for line in lines("codex", "netdown") if line]
    for ours in (Ending.HANG, Ending.TIMEOUT):
        assert ran("codex", *waiting, code=-15, ours=ours).outcome is Ending.NETWORK
    silent = part_of("codex", "ok", "thread.started", "turn.started")
    assert ran("codex", *silent, code=-15, ours=Ending.HANG).outcome is Ending.HANG


def test_codex_hides_its_error_in_json() -> None:
    found = replay("codex", "e_billing")
    assert found.detail == "Your credit balance is too low to access the Anthropic API."


@pytest.mark.parametrize(
    ("said", "ending"),
    [
        ("Quota exceeded. Check your plan and billing details.", "quota"),
        ("Incomplete response returned, reason: max_output_tokens", "error"),
        ("Incomplete response returned, reason: content_filter", "refused"),
        ("unexpected status 403 Forbidden: no, url: x", "auth"),
        ("unexpected status 500 Internal Server Error: , url: x", "overloaded"),
        ("You've hit your usage limit. Try again later.", "rate_limit"),
    ],
)
def test_codex_tells_its_errors_by_words_alone(said: str, ending: str) -> None:
    failed = {"type": "turn.failed", "error": {"message": said}}
    assert ran("codex", failed, code=1).outcome == ending


def test_codex_tells_of_some_tools_only_when_they_are_done() -> None:
    change = {"id": "item_9", "type": "file_change", "changes": [], "status": "completed"}
    told = {"type": "item.completed", "item": change}
    done = (ToolCall("item_9", "file_change"), ToolResult("item_9", ok=True))
    assert parser("codex").feed(compact(told)) == done
    assert ran("codex", told).tool_calls == 1


def test_codex_declines_a_tool() -> None:
    *_, begun, ended, said, done = part_of("codex", "failtool")
    ended["item"]["status"] = "declined"
    found = ran("codex", begun, ended, said, done)
    assert (found.outcome, found.denied) == (Ending.DENIED, ("command_execution",))
    assert found.tool_calls == 1


def test_a_session_total_of_codex_can_be_made_the_runs() -> None:
    found = replay("codex", "ok")
    assert found.usage is not None
    assert found.usage.since(Tokens(1200, 34, 1000, 0, 1234)) == Tokens(1200, 34, 1000, 0, 1234)


# --- gemini -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "ending"), HTTP.items())
def test_the_exit_code_of_gemini_is_a_cut_http_status(status: int, ending: str) -> None:
    begun = part_of("gemini", "ok", "init")
    assert ran("gemini", *begun, code=status & 255).outcome == ending
    # An event says more: a full context has the status of any bad request.
    result = part_of("gemini", "e_context", "result")
    assert ran("gemini", *begun, *result, code=status & 255).outcome is Ending.CONTEXT_OVERFLOW


@pytest.mark.parametrize(
    ("code", "ending"), [(41, "auth"), (53, "max_turns"), (52, "environment"), (130, "killed")]
)
def test_gemini_has_exit_codes_of_its_own(code: int, ending: str) -> None:
    assert ran("gemini", code=code).outcome == ending


def test_gemini_exits_0_on_a_broken_stream_and_on_a_loop() -> None:
    assert replay("gemini", "e_drop").outcome is Ending.NETWORK
    result = part_of("gemini", "maxturns", "result")[0]
    assert result["status"] == "success"
    assert replay("gemini", "maxturns").outcome is Ending.LOOP


def test_the_advice_of_gemini_on_quotas_is_not_its_error() -> None:
    message = part_of("gemini", "e_rate_limit", "result")[0]["error"]["message"]
    assert "quota" in message
    assert replay("gemini", "e_rate_limit").outcome is Ending.RATE_LIMIT


def test_a_quota_by_the_minute_passes() -> None:
    said = "You exceeded your current quota: GenerateRequestsPerMinute. Please retry in 34.5s."
    result = {
        "type": "result",
        "status": "error",
        "error": {"message": f'[API Error: {{"error":{{"code":429,"message":"{said}"}}}}]'},
    }
    found = ran("gemini", result, code=173)
    assert (found.outcome, found.reset_at) == (Ending.RATE_LIMIT, NOON + 34.5)


def test_gemini_told_to_end_exits_0_in_the_middle_of_its_turn() -> None:
    assert replay("gemini", "sig_TERM_group").outcome is Ending.KILLED


def test_pieces_of_a_text_of_gemini_are_put_together() -> None:
    pieces = [
        {"type": "message", "role": "assistant", "content": text, "delta": True}
        for text in ("One ", "two ", "three.")
    ]
    tool = {"type": "tool_use", "tool_name": "t", "tool_id": "1"}
    done = {"type": "result", "status": "success"}
    for live in (True, False):
        assert ran("gemini", *pieces, done, live=live).last_words == "One two three."
        assert ran("gemini", *pieces, tool, pieces[0], done, live=live).last_words == "One"


# --- opencode ---------------------------------------------------------------------------------


def test_opencode_overflows_for_ever_with_text_in_between() -> None:
    said = [line for line in lines("opencode", "e_context") if line][:-1]
    assert said[-1] != said[0]
    found = ran("opencode", *said, code=-9, ours=Ending.LOOP)
    assert found.outcome is Ending.CONTEXT_OVERFLOW


def test_opencode_that_gets_past_a_full_context_has_done_its_work() -> None:
    overflow = lines("opencode", "e_context")[:1]
    assert ran("opencode", *overflow, *part_of("opencode", "ok")).outcome is Ending.COMPLETED


@pytest.mark.parametrize(
    ("headers", "after"),
    [({"retry-after": "3600"}, 3600.0), ({"Retry-After-Ms": "1500"}, 1.5), ({}, None)],
)
def test_opencode_passes_the_reset_time_in_a_header(
    headers: dict[str, str], after: float | None
) -> None:
    error = part_of("opencode", "e_rate_limit")[0]
    error["error"]["data"]["responseHeaders"] = headers
    found = ran("opencode", error, code=1)
    came = error["timestamp"] / 1000
    assert found.reset_at == (None if after is None else came + after)


def test_opencode_tells_a_refused_permission_on_standard_error_alone() -> None:
    open_step = part_of("opencode", "failtool")[:3]
    said = "! permission requested: bash (rm); auto-rejecting"
    assert ran("opencode", *open_step, stderr=said).outcome is Ending.DENIED
    # A turn that came to its end is not judged by such words.
    assert ran("opencode", *part_of("opencode", "ok"), stderr=said).outcome is Ending.COMPLETED


# --- any --------------------------------------------------------------------------------------


def test_a_result_before_the_kill_counts() -> None:
    for ours in (Ending.HANG, Ending.TIMEOUT, None):
        assert ran("claude", INIT, CLAUDE_OK, code=-15, ours=ours).outcome is Ending.COMPLETED


def test_what_the_runner_did_on_purpose_is_not_explained_away() -> None:
    for ours in (Ending.BUDGET, Ending.KILLED, Ending.LIMIT, Ending.BREAKPOINT):
        said = part_of("claude", "e_overloaded", "system")
        assert ran("claude", *said, code=-15, ours=ours).outcome is ours


def test_a_good_word_before_a_bad_exit_code_is_not_believed() -> None:
    assert ran("claude", INIT, CLAUDE_OK, code=1).outcome is Ending.ERROR
    found = ran("claude", INIT, CLAUDE_OK, code=1, stderr="ENOSPC: no space left on device")
    assert found.outcome is Ending.ENVIRONMENT


@pytest.mark.parametrize("code", [-11, 139, -6, 134])
def test_a_fault_of_the_program_is_a_crash(code: int) -> None:
    assert ran("codex", code=code).outcome is Ending.CRASH
    assert ran("command", code=code).outcome is Ending.CRASH


@pytest.mark.parametrize("code", [-15, 143, -9, 137, -2, 130, -1, 129])
def test_a_signal_from_outside_is_a_kill(code: int) -> None:
    assert ran("codex", code=code).outcome is Ending.KILLED


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode", "copilot"])
def test_a_run_cut_off_is_never_completed(name: str) -> None:
    assert ran(name, *lines(name, "ok")[:2]).outcome is not Ending.COMPLETED
    assert ran(name, *lines(name, "ok")[:2], code=1).outcome is not Ending.COMPLETED
    assert ran(name).outcome is Ending.ERROR


def test_a_run_whose_end_nobody_saw_is_a_crash() -> None:
    assert ran("command", code=None).outcome is Ending.CRASH


@pytest.mark.parametrize(
    ("said", "ending"),
    [
        ("Invalid API key · Please run /login", "auth"),
        ("--dangerously-skip-permissions cannot be used with root/sudo privileges", "environment"),
        ("Error: claude native binary not installed", "environment"),
        ("something else", "error"),
    ],
)
def test_a_failed_start_is_explained_by_standard_error(said: str, ending: str) -> None:
    found = ran("claude", code=1, stderr=f"warning: slow\n{said}\n")
    assert found.outcome == ending
    # It may come among the events too, where both go to one log.
    assert ran("claude", said.encode(), code=1).outcome == ending


def test_the_last_line_that_means_something_counts() -> None:
    said = "Attempt 1 failed with status 429. Retrying\nfetch failed sending request\n    at x.js\n"
    assert error_signs.by_last_lines(said) == (Ending.NETWORK, "fetch failed sending request")


@pytest.mark.parametrize(
    ("code", "ending"), [(0, "completed"), (3, "error"), (127, "environment"), (126, "environment")]
)
def test_any_command_is_judged_by_its_exit_code(code: int, ending: str) -> None:
    found = ran("command", b"I hit a rate limit, 401 Unauthorized", code=code)
    assert found.outcome == ending
    assert found.last_words == "I hit a rate limit, 401 Unauthorized"


def test_only_the_mailbox_tells_a_breakpoint() -> None:
    good, bad = replay("claude", "ok"), replay("claude", "e_auth")
    assert with_breakpoint(good, found=True).outcome is Ending.BREAKPOINT
    assert with_breakpoint(good, found=False).outcome is Ending.NO_BREAKPOINT
    assert with_breakpoint(bad, found=True) == bad
    denied = replay("claude", "noperm")
    assert with_breakpoint(denied, found=True).outcome is Ending.BREAKPOINT
    assert with_breakpoint(denied, found=False) == denied
