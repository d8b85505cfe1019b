"""What the real programs do with answers, limits, wrong keys and signals, when started by hand."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.models.clis import NAMES, Run, started
from tests.models.script import Fault, Say, Shell, answer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.models.server import ModelServer

PATIENCE = 30.0
RESETS = 2_000_000_000
TOOL = "echo $$ > tool.pid; sleep 300"

each_program = pytest.mark.parametrize("name", NAMES)


@dataclass(frozen=True)
class Known:
    """What was measured of a program, with the settings of `clis`."""

    limited: int | None
    """Exit code on a limit; None for one that goes on asking for more than a minute."""
    refused: int
    """Exit code on a wrong key."""
    stopped: int
    """Exit code after TERM."""
    leaves_its_tool: bool
    """Whether the tool's shell outlives TERM."""


KNOWN = {
    "claude": Known(limited=1, refused=1, stopped=143, leaves_its_tool=False),
    "codex": Known(limited=1, refused=1, stopped=-15, leaves_its_tool=False),
    "gemini": Known(limited=173, refused=145, stopped=0, leaves_its_tool=True),
    "opencode": Known(limited=None, refused=1, stopped=-15, leaves_its_tool=True),
}


@each_program
def test_a_whole_turn_writes_a_file_and_ends_well(
    model_server: ModelServer, tmp_path: Path, name: str
) -> None:
    played = model_server.play(
        answer("I will write it.", Shell("echo hi > note && echo told")), Say("It is written.")
    )
    with started(name, played, tmp_path, prompt="Write the note.") as run:
        assert run.wait() == 0, run.told()
        assert run.left() == {}
    assert (tmp_path / "work" / "note").read_text() == "hi\n"
    first, second = played.turns
    assert "Write the note." in first.words
    assert "told" in second.words
    assert all(each.own_key for each in played.requests)
    assert played.problems == []
    assert _last_words(name, run) == "It is written."
    assert played.key not in run.told()


@each_program
def test_a_limit_without_an_end_is_told_or_retried(
    model_server: ModelServer, tmp_path: Path, name: str
) -> None:
    played = model_server.play(again=Fault("rate_limit"))
    with started(name, played, tmp_path) as run:
        if KNOWN[name].limited is None:
            played.wait(2, within=PATIENCE)
            assert run.process.poll() is None
            assert run.events() == []
        else:
            assert run.wait() == KNOWN[name].limited, run.told()
            assert "429" in _complaint(name, run) or "quota" in _complaint(name, run)
            assert len(played.turns) == (3 if name == "claude" else 1)


@each_program
def test_a_wrong_key_is_told(model_server: ModelServer, tmp_path: Path, name: str) -> None:
    played = model_server.play(again=Fault("auth", message="this key is wrong"))
    with started(name, played, tmp_path) as run:
        assert run.wait() == KNOWN[name].refused, run.told()
    assert "this key is wrong" in _complaint(name, run)
    assert len(played.turns) <= 3


@each_program
def test_term_during_a_tool_call_ends_the_program_and_not_always_the_tool(
    model_server: ModelServer, tmp_path: Path, name: str
) -> None:
    played = model_server.play(Shell(TOOL), again=Say("Done."))
    with started(name, played, tmp_path) as run:
        _wait_for(tmp_path / "work" / "tool.pid", run)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait(within=10) == KNOWN[name].stopped, run.told()
        left = run.left(within=1)
    assert ("sleep 300" in left.values()) == KNOWN[name].leaves_its_tool, left
    assert run.alive() == {}
    assert len(played.turns) == 1


def test_the_limit_of_a_subscription_tells_when_it_ends(
    model_server: ModelServer, tmp_path: Path
) -> None:
    limited = model_server.play(again=Fault("usage_limit", resets_at=RESETS))
    token = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": limited.key}
    with started("claude", limited, tmp_path / "claude", env=token) as run:
        assert run.wait() == 1, run.told()
    [event] = [each for each in run.events() if each["type"] == "rate_limit_event"]
    assert event["rate_limit_info"]["resetsAt"] == RESETS
    assert [(each.credential, each.own_key) for each in limited.turns] == [("authorization", True)]
    planned = model_server.play(again=Fault("usage_limit", resets_at=RESETS))
    with started("codex", planned, tmp_path / "codex", env={"TZ": "UTC"}) as run:
        assert run.wait() == 1, run.told()
    assert "try again at May 18th, 2033 3:33 AM." in _complaint("codex", run)


def _wait_for(path: Path, run: Run) -> None:
    deadline = time.monotonic() + PATIENCE
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline, run.told()
        time.sleep(0.01)


def _last_words(name: str, run: Run) -> str:
    found = run.events()
    if name == "claude":
        assert (found[-1]["type"], found[-1]["subtype"]) == ("result", "success")
        assert found[-1]["is_error"] is False
        return str(found[-1]["result"])
    if name == "codex":
        assert found[-1]["type"] == "turn.completed"
        return str(found[-2]["item"]["text"])
    if name == "gemini":
        assert (found[-1]["type"], found[-1]["status"]) == ("result", "success")
        pieces = [each["content"] for each in found if each.get("role") == "assistant"]
        return "".join(pieces).removeprefix("I will write it.")
    assert (found[-1]["type"], found[-1]["part"]["reason"]) == ("step_finish", "stop")
    return str(found[-2]["part"]["text"])


def _complaint(name: str, run: Run) -> str:
    last: dict[str, Any] = run.events()[-1]
    if name == "claude":
        assert (last["is_error"], last["terminal_reason"]) == (True, "api_error")
        return str(last["result"])
    if name == "codex":
        assert last["type"] == "turn.failed"
        return str(last["error"]["message"])
    if name == "gemini":
        assert last["status"] == "error"
        return str(last["error"]["message"])
    assert last["type"] == "error"
    assert last["error"]["data"]["statusCode"] == 401
    return str(last["error"]["data"]["message"])
