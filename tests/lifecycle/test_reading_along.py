"""What the runner makes of a program's output while it lives: patience, and its end."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.clock import SteppedClock
from lifecycle.machine.states import Ended
from lifecycle.monitor import ENDS_WITHIN, TROUBLED_AFTER, Monitor
from lifecycle.programs import git_settings
from runtime.agents.catalogue import built_in

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


@pytest.mark.parametrize(("trouble", "ended"), [(WAITING, Ended.NETWORK), (BUSY, Ended.OVERLOADED)])
def test_a_program_that_tries_for_ever_is_ended(
    heard: Listener, trouble: dict[str, str], ended: Ended
) -> None:
    heard.says(trouble)
    assert heard.monitor.listen() is None
    heard.later(TROUBLED_AFTER - 1)
    heard.says(trouble)
    assert heard.monitor.listen() is None
    heard.later(1)
    heard.says(trouble)
    doom = heard.monitor.listen()
    assert doom is not None
    assert doom.ended is ended
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
    heard.monitor.hold(lambda: passed.append("first"))
    heard.monitor.listen()
    heard.later(ENDS_WITHIN - 1)
    heard.monitor.hold(lambda: passed.append("second"))
    heard.monitor.listen()
    assert passed == []
    heard.later(1)
    heard.monitor.listen()
    heard.monitor.listen()
    assert passed == ["second"]


def test_a_breakpoint_of_a_program_without_events_is_passed_on_at_once(tmp_path: Path) -> None:
    listener, passed = Listener(tmp_path, "command"), [0]
    listener.monitor.hold(lambda: passed.append(1))
    assert passed == [0, 1]


def test_what_a_program_does_not_name_is_the_model_that_was_asked_for(heard: Listener) -> None:
    heard.says({"type": "turn.started"}, WORDS, TURN_OVER)
    report = heard.monitor.finish(0, None, None, spoke=True)
    assert report is not None
    assert (report.model, report.tokens) == ("the-one-asked-for", 10)


def test_who_commits_is_known_where_no_settings_of_git_are(tmp_path: Path) -> None:
    hidden = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    ask = ["git", "var", "GIT_COMMITTER_IDENT"]

    def said(settings: dict[str, str]) -> str:
        env = {"PATH": os.environ["PATH"], **hidden, **git_settings(settings)}
        settled = ["git", "-c", "user.useConfigOnly=true", *ask[1:]]
        done = subprocess.run(
            settled, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        return done.stdout

    assert said({}) == ""
    known = said({"user.name": "Ada L", "user.email": "ada@example.org"})
    assert known.startswith("Ada L <ada@example.org>")
