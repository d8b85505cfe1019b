"""One process may have several turns: what wakes it, what they use together, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from runtime.agents.outcome import Ending, Tokens, UsageScope
from tests.runtime.agents.recorded import compact, parser, part_of, ran
from tests.runtime.agents.turns import BEHIND, INIT, NOTIFIED, result

if TYPE_CHECKING:
    from runtime.agents.parsing.parser import Parser

BOTH = pytest.mark.parametrize("live", [True, False], ids=["live", "afterwards"])
NONE_LEFT = {"type": "system", "subtype": "background_tasks_changed", "tasks": []}


def calls(tool: str, parent: str | None = None, **given: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": "t1", "name": tool, "input": given}
    message = {"id": f"m-{tool}", "usage": {"input_tokens": 7}, "content": [block]}
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent}


def says(words: str) -> dict[str, Any]:
    message = {"id": "m-text", "content": [{"type": "text", "text": words}]}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None}


def claude(*said: dict[str, Any], live: bool = True) -> Parser:
    reading = parser("claude", live=live)
    for event in said:
        reading.feed(compact(event))
    return reading


# --- what they use ----------------------------------------------------------------------------


@BOTH
def test_what_several_results_tell_is_added_up(*, live: bool) -> None:
    reading = claude(INIT, result(100_000, 5.0), INIT, result(500, 0.25), live=live)
    assert reading.used() == (Tokens(100_500, 0, 0, 0, 100_500), 5.25)
    found = reading.finish(0)
    assert (found.cost_usd, found.cost_scope, found.usage_scope) == (
        5.25,
        UsageScope.RUN,
        UsageScope.RUN,
    )


@BOTH
def test_a_result_that_names_no_model_adds_nothing(*, live: bool) -> None:
    reading = claude(result(100, 5.0), result(0, 5.0, usage={"input_tokens": 100}), live=live)
    assert reading.used() == (Tokens(100, 0, 0, 0, 100), 5.0)


@BOTH
def test_answers_since_the_latest_result_count_and_those_before_it_only_once(*, live: bool) -> None:
    reading = claude(calls("Read"), result(100, 5.0), calls("Bash"), live=live)
    assert reading.used() == (Tokens(107, 0, 0, 0, 107), 5.0)
    reading.feed(compact(result(10, 0.5)))
    assert reading.used() == (Tokens(110, 0, 0, 0, 110), 5.5)


def test_an_older_program_tells_tokens_by_turn_and_the_sessions_money() -> None:
    said = [result(100, 5.0), result(10, 5.5)]
    for each in said:
        del each["model_usage_since_last_result"]
    found = ran("claude", *said)
    assert found.usage == Tokens(110, 0, 0, 0, 110)
    assert (found.cost_usd, found.cost_scope) == (5.5, UsageScope.SESSION)


# --- whether it is over -----------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("again", [INIT, says("Now."), calls("Bash")], ids=["init", "text", "tool"])
def test_a_turn_after_a_result_is_not_over(again: dict[str, Any], *, live: bool) -> None:
    said = (INIT, result(), again)
    before, then, over = (
        claude(*said[:2], live=live),
        claude(*said, live=live),
        claude(*said, result(), live=live),
    )
    assert (before.finished, then.finished, over.finished) == (True, False, True)
    assert then.finish(0).outcome is Ending.CRASH


@pytest.mark.parametrize("name", ["codex", "gemini", "copilot"])
def test_a_whole_turn_is_over(name: str) -> None:
    reading = parser(name)
    for event in part_of(name, "ok"):
        reading.feed(compact(event))
    assert reading.finished
    assert not reading.waits


@BOTH
def test_an_agent_of_the_agent_begins_no_turn(*, live: bool) -> None:
    said = (INIT, BEHIND, result(), calls("Bash", parent="t1"))
    reading = claude(*said, live=live)
    assert reading.finished
    assert reading.finish(0).outcome is Ending.WAITING


# --- what it waits for ------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("ended", [NOTIFIED, NONE_LEFT], ids=["told", "none left"])
def test_work_in_the_background_is_a_running_tool_until_it_ends(
    ended: dict[str, Any], *, live: bool
) -> None:
    reading = claude(INIT, BEHIND, result(), live=live)
    assert (reading.tools_running, reading.waits, reading.finished) == (1, True, True)
    assert reading.finish(0).outcome is Ending.WAITING
    reading.feed(compact(ended))
    assert (reading.tools_running, reading.waits) == (0, False)
    assert reading.finish(0).outcome is Ending.COMPLETED
    assert reading.finish(0).notes == {}


def test_one_tool_in_the_background_is_one() -> None:
    assert claude(calls("Bash", run_in_background=True), BEHIND).tools_running == 1


def test_one_that_was_woken_is_not_asleep_any_more() -> None:
    reading = claude(INIT, calls("ScheduleWakeup"), result())
    assert reading.waits
    assert reading.finish(0).outcome is Ending.WAITING
    for event in (INIT, says("Here I am."), result()):
        reading.feed(compact(event))
    assert reading.finish(0).outcome is Ending.COMPLETED
