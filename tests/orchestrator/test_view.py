"""What is shown while loops run: a table on a terminal, dated lines elsewhere."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from typing import TYPE_CHECKING

from lifecycle.machine import events as on
from lifecycle.machine.states import BackingOff, Resting, Tally
from lifecycle.parts import News
from lifecycle.record import AgentLifecycle
from orchestrator import telling
from orchestrator.cli.text import instant
from tests.orchestrator.loopkit import BIN, DONE

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World


def _on_a_terminal(world: World, *args: str, **env: str) -> str:
    """Run a command with standard error on a terminal; return all that was written to it."""
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [BIN / "loopwright", *args],
            cwd=world.repo,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30", **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
        ) as process:
            os.close(theirs)
            theirs = -1
            written = b""
            while True:
                try:
                    read = os.read(ours, 65536)
                except OSError:  # all who wrote are gone
                    break
                if not read:
                    break
                written += read
            assert process.wait() == 0
    finally:
        os.close(ours)
        if theirs >= 0:
            os.close(theirs)
    return written.decode()


def test_a_terminal_shows_a_live_table_with_last_words_and_is_left_clean(world: World) -> None:
    agent = world.script("agent", [{"say": "Reading [bold]the[/bold] code"}, {"sleep": 1.5}, DONE])
    shown = _on_a_terminal(world, "run", "x", "--command", agent)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert "AGENT" in plain
    assert re.search(r"agent-T001 +1 +working +\d+ s +Reading \[bold\]the\[/bold\] code", plain)
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "the cursor is shown again"


def test_of_a_program_that_writes_reports_the_table_shows_what_they_say(world: World) -> None:
    said = (
        '{"type":"assistant","message":{"id":"a","content":[{"type":"text","text":"Reading it"}]}}'
    )
    programs = world.folder / "programs"
    programs.mkdir()
    (programs / "claude").write_text(
        f"#!/bin/sh\ncat > /dev/null\necho '{said}'\nsleep 1.5\n"
        f"'{BIN / 'loopwright'}' signal task_complete --summary done\n"
        'echo \'{"type":"result","subtype":"success","is_error":false,"result":"Done"}\'\n'
    )
    (programs / "claude").chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    shown = _on_a_terminal(world, "run", "x", "--agent", "claude", PATH=path)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert re.search(r"agent-T001 +1 +working +\d+ s +Reading it", plain)
    assert '"type"' not in plain


def test_no_color_and_plain_give_dated_lines_also_on_a_terminal(world: World) -> None:
    agent = world.script("agent", [DONE])
    for number, (args, env) in enumerate((((), {"NO_COLOR": "1"}), (("--plain",), {}))):
        shown = _on_a_terminal(world, "run", f"task {number}", "--command", agent, *args, **env)
        assert "\x1b" not in shown
        assert re.search(r"^\d\d:\d\d:\d\d agent-T00\d: attempt 1 started", shown, re.MULTILINE)


def test_what_agents_say_cannot_touch_the_terminal(world: World) -> None:
    evil = {"breakpoint": {"type": "task_complete", "summary": "done\x1b[2J\nand \u202emore"}}
    done = world.call("run", "x", "--command", world.script("agent", [evil]))
    assert "\x1b" not in done.stdout + done.stderr
    assert "\u202e" not in done.stdout + done.stderr


def test_a_first_attempt_that_waits_for_a_program_says_which_until_when_and_what_is_sooner() -> (
    None
):
    rest = Resting(program="claude", why="rate_limit: 5 hours", until=3600.0)
    state = BackingOff(
        tally=Tally(resting=(rest,)), until=3600.0, why="rate_limit: 5 hours", fixed=True
    )
    ready = on.WorkspaceReady(
        at=60.0, attempt=1, path="/w", branch="agent/a", base_commit="c", base_branch="main"
    )
    record = AgentLifecycle(agent_id="a", task="x", work=state)
    news = News("a", "WorkspaceReady", "Preparing", "BackingOff", 60.0, ready, record)
    told = telling.fact(news)
    assert told == (
        "works on branch agent/a, from main; waits: claude rests until "
        f"{instant(3600.0, 60.0)} (rate_limit: 5 hours); sooner with: loopwright resume a"
    )
