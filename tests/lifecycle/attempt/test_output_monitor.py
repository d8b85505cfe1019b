"""What the runner makes of a program's output while it lives: patience, and its end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.attempt.output_monitor import ENDS_WITHIN, LINGERS_AFTER, TROUBLED_AFTER, Monitor
from lifecycle.clock import SteppedClock
from runtime.agents.catalogue import built_in
from runtime.agents.outcome import Ending
from tests.runtime.agents.turns import BEHIND, INIT, NOTIFIED, result

if TYPE_CHECKING:
    from pathlib import Path

WAITING = {"type": "error", "message": "Reconnecting... waiting for network (refused)"}
BUSY = {"type": "error", "message": "Reconnecting... 1/5 (unexpected status 503 Unavailable)"}
WORDS = {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "Yes."}}
TURN_OVER = {"type": "turn.completed", "usage": {"input_tokens": 7, "output_tokens": 3}}


class Listener:
    """A program's log that grows, and who reads along."""

    def __init__(self, folder: Path, name: str = "codex") -> None:
        self.log = folder / "log"
        self.log.touch()
        self.clock = SteppedClock(1_000_000.0)
        self.monitor = Monitor(
            built_in(name), self.log, 0, self.clock.now, model="the-one-asked-for"
        )

    def says(self, *events: Any) -> None:
        with self.log.open("a") as out:
            out.writelines(json.dumps(each, separators=(",", ":")) + "\n" for each in events)

    def later(self, seconds: float) -> None:
        self.clock.advance(seconds)


@pytest.fixture
def heard(tmp_path: Path) -> Any:
    listener = Listener(tmp_path)
    yield listener
    listener.monitor.close()


@pytest.mark.parametrize(
    ("trouble", "ended"), [(WAITING, Ending.NETWORK), (BUSY, Ending.OVERLOADED)]
)
def test_a_program_that_tries_for_ever_is_ended(
    heard: Listener, trouble: dict[str, str], ended: Ending
) -> None:
    heard.says(trouble)
    assert heard.monitor.listen() is None
    heard.later(TROUBLED_AFTER - 1)
    heard.says(trouble)
    assert heard.monitor.listen() is None
    heard.later(1)
    heard.says(trouble)
    end_now = heard.monitor.listen()
    assert end_now is not None
    assert end_now.ended is ended
    assert heard.monitor.listen() is None


def test_a_long_answer_after_trouble_is_waited_for(heard: Listener) -> None:
    heard.says(WAITING)
    assert heard.monitor.listen() is None
    heard.later(10 * TROUBLED_AFTER)
    assert heard.monitor.listen() is None


def test_trouble_that_was_overcome_does_not_count_any_more(heard: Listener) -> None:
    heard.says(WAITING)
    heard.monitor.listen()
    heard.later(TROUBLED_AFTER - 1)
    heard.says(WORDS)
    heard.monitor.listen()
    heard.says(WAITING)
    heard.monitor.listen()
    heard.later(2)
    heard.says(WAITING)
    assert heard.monitor.listen() is None


def test_a_breakpoint_waits_until_the_program_had_time_to_end_its_turn(heard: Listener) -> None:
    passed: list[str] = []
    heard.monitor.defer_signal(lambda: passed.append("first"))
    heard.monitor.listen()
    heard.later(ENDS_WITHIN - 1)
    heard.monitor.defer_signal(lambda: passed.append("second"))
    heard.monitor.listen()
    assert passed == []
    heard.later(1)
    heard.monitor.listen()
    heard.monitor.listen()
    assert passed == ["second"]


def test_a_breakpoint_of_a_program_without_events_is_passed_on_at_once(tmp_path: Path) -> None:
    listener, passed = Listener(tmp_path, "command"), [0]
    listener.monitor.defer_signal(lambda: passed.append(1))
    assert passed == [0, 1]


def test_what_a_program_does_not_name_is_the_model_that_was_asked_for(heard: Listener) -> None:
    heard.says({"type": "turn.started"}, WORDS, TURN_OVER)
    report = heard.monitor.finish(0, None, None, spoke=True)
    assert report is not None
    assert (report.model, report.tokens) == ("the-one-asked-for", 10)


# --- several turns ----------------------------------------------------------------------------

OVER = result(900, 9.0)
TOOL = {
    "type": "assistant",
    "message": {
        "id": "m2",
        "usage": {"input_tokens": 70},
        "content": [{"type": "tool_use", "id": "t2", "name": "Bash", "input": {}}],
    },
}


@pytest.fixture
def woken(tmp_path: Path) -> Any:
    listener = Listener(tmp_path, "claude")
    yield listener
    listener.monitor.close()


def test_a_program_that_stays_after_its_turn_is_ended(woken: Listener) -> None:
    woken.says(INIT, OVER)
    assert woken.monitor.listen() is None
    woken.later(LINGERS_AFTER)
    doom = woken.monitor.listen()
    assert doom is not None
    assert doom.ended is Ending.NO_BREAKPOINT


def test_a_program_that_waits_for_its_own_work_is_let_wait_until_that_ends(woken: Listener) -> None:
    woken.says(INIT, BEHIND, OVER)
    assert woken.monitor.listen() is None
    woken.later(10 * LINGERS_AFTER)
    assert (woken.monitor.listen(), woken.monitor.tools_running) == (None, 1)
    woken.says(NOTIFIED)
    assert (woken.monitor.listen(), woken.monitor.tools_running) == (None, 0)
    woken.later(LINGERS_AFTER)
    assert woken.monitor.listen() is not None


def test_a_program_that_was_woken_works_and_what_it_uses_is_added_up(woken: Listener) -> None:
    woken.says(INIT, OVER)
    assert woken.monitor.listen() is None
    woken.says(INIT, TOOL)
    assert woken.monitor.listen() is None
    assert (woken.monitor.spent().tokens, woken.monitor.spent().cost_usd) == (970, 9.0)
    woken.later(10 * LINGERS_AFTER)
    assert (woken.monitor.listen(), woken.monitor.tools_running) == (None, 1)
    woken.says(OVER)
    report = woken.monitor.finish(0, None, None, spoke=False)
    assert report is not None
    assert (report.tokens, report.cost_usd) == (1800, 18.0)


# --- a program without events -----------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "FAILED tests/test_http.py::test_401 - assert 401 == 200",
        "I added the authentication middleware.",
        "3 passed, 502 deselected, 1 failed",
        "usage limit: try again in 3 hours, quota exceeded, no space left on device",
    ],
)
def test_nothing_is_concluded_from_what_a_plain_command_says(tmp_path: Path, words: str) -> None:
    listener = Listener(tmp_path, "command")
    listener.log.write_text(f"before\n{words}\n\n \n")
    report = listener.monitor.finish(1, None, None, spoke=False)
    assert report is not None
    assert (report.ended, report.detail, report.reset_at) == (Ending.ERROR, words, None)


@pytest.mark.parametrize(
    ("code", "signal", "ended", "detail"),
    [
        (3, None, Ending.ERROR, "its last words"),
        (127, None, Ending.ENVIRONMENT, "its last words"),
        (None, 11, Ending.CRASH, "ended by SIGSEGV: its last words"),
        (None, 15, Ending.KILLED, "ended by SIGTERM: its last words"),
    ],
)
def test_a_plain_command_is_judged_by_its_end(
    tmp_path: Path, code: int | None, signal: int | None, ended: Ending, detail: str
) -> None:
    listener = Listener(tmp_path, "command")
    listener.log.write_text("its last words")
    report = listener.monitor.finish(code, signal, None, spoke=False)
    assert report is not None
    assert (report.ended, report.detail) == (ended, detail)


def test_a_plain_command_that_said_nothing_is_judged_all_the_same(tmp_path: Path) -> None:
    report = Listener(tmp_path, "command").monitor.finish(3, None, None, spoke=False)
    assert report is not None
    assert report.detail == "it ended with exit code 3 and without a message"


def test_words_of_an_earlier_process_in_the_same_log_are_not_its(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("earlier\n")
    monitor = Monitor(built_in("command"), log, log.stat().st_size, SteppedClock().now)
    report = monitor.finish(3, None, None, spoke=False)
    assert report is not None
    assert "earlier" not in report.detail


def test_a_time_in_which_it_could_not_work_counts_for_no_limit(heard: Listener) -> None:
    heard.says(TURN_OVER)
    assert heard.monitor.listen() is None
    heard.later(10 * LINGERS_AFTER)
    heard.monitor.ignore_time(10 * LINGERS_AFTER)
    assert heard.monitor.listen() is None
    heard.later(LINGERS_AFTER)
    assert heard.monitor.listen() is not None
