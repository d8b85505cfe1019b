"""What is shown while loops run: a table on a terminal, dated lines elsewhere."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.machine import events as on
from lifecycle.machine.states import BackingOff, Tally, UnavailableProgram
from lifecycle.record import AgentLifecycle
from lifecycle.reporting import Committed
from orchestrator.terminal.text import instant
from orchestrator.wording import facts, live_lines
from tests import warm
from tests.orchestrator.loopkit import ASK, BIN, BLOCK, DONE, SETTINGS, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.orchestrator.loopkit import World

_LINK = re.compile(rb"http://127\.0\.0\.1:\d+/login\?token=lw1\.[\w-]{50,}\.[\w-]{40,}")


def _on_a_terminal(
    world: World,
    *args: str,
    code: int = 0,
    beside: Callable[[Shown], None] | None = None,
    columns: int = 100,
    **env: str,
) -> str:
    """Run a command with standard error on a terminal; return all that was written to it.

    `beside` acts while it runs, as people with a second terminal do.
    """
    sized = {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "30"}
    ours, theirs = pty.openpty()
    with Path(os.devnull).open("wb") as nothing:
        env = {**os.environ, **sized, **env}
        process = warm.Process(
            args, cwd=world.repo, env=env, streams=(None, nothing.fileno(), theirs)
        )
    os.close(theirs)
    shown = Shown(process, ours)
    try:
        with ThreadPoolExecutor(1) as person:
            acts = person.submit(_acting, beside, shown)
            while True:
                try:
                    read = os.read(ours, 65536)
                except OSError:  # all who wrote are gone
                    break
                if not read:
                    break
                shown.written += read
            assert process.wait() == code
            acts.result()
    finally:
        os.close(ours)
        process.kill()
        process.wait()
    return shown.written.decode()


class Shown:
    """A terminal as it is being written to."""

    def __init__(self, process: warm.Process, terminal: int) -> None:
        self.process = process
        self.written = b""
        self._terminal = terminal

    def resize(self, columns: int, lines: int) -> None:
        """Give the terminal another size, as a person who draws at its corner."""
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)
        self.process.send_signal(signal.SIGWINCH)

    def is_begun_anew(self, before: int) -> None:
        """Wait until the screen is cleared once more."""
        until(lambda: b"\x1b[H\x1b[2J" in self.written[before:], "the screen is cleared")

    @property
    def table(self) -> str:
        """The live table as it stands now."""
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.written.decode(errors="replace"))
        return plain.replace("\r", "").rpartition("AGENT  ")[2]

    def comes_to(self, *words: str) -> None:
        """Wait until one line of the table holds all these words."""

        def there() -> bool:
            return any(all(word in line for word in words) for line in self.table.splitlines())

        until(there, f"the table shows {words}, not {self.table}")


def _acting(beside: Callable[[Shown], None] | None, shown: Shown) -> None:
    if beside is None:
        return
    try:
        beside(shown)
    finally:
        shown.process.send_signal(signal.SIGINT)


def test_a_terminal_shows_a_live_table_with_last_words_and_is_left_clean(world: World) -> None:
    says = "Reading [bold]the[/bold] code"
    agent = world.script("agent", [{"say": says}, {"sleep": 60}])
    shown = _on_a_terminal(
        world, "run", "x", "--command", agent, code=130, beside=lambda it: it.comes_to(says)
    )
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert "AGENT" in plain
    assert re.search(r"agent-T001 +1 +working +\d+ s +Reading \[bold\]the\[/bold\] code", plain)
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "the cursor is shown again"


def test_the_live_table_follows_what_people_do_also_after_a_loop_has_ended(world: World) -> None:
    world.settings(SETTINGS + "baseline = false\n")
    scripts: dict[str, list[Any]] = {
        name: [{"write": {"path": name, "text": name}}, {"commit": name}, DONE]
        for name in ("A", "R", "G")
    }
    scripts |= {"W": [{"sleep": 60}], "B": [BLOCK], "Q": [ASK]}
    for name, script in scripts.items():
        world.call("add", name, "--name", name, "--command", world.script(name, script))

    def person(shown: Shown) -> None:
        for name in ("A", "R", "G"):
            shown.comes_to(f"{name} ", "done", "waits for your accept or reject")
        shown.comes_to("Q ", "needs you", "Blue or green?")
        _order(world, "accept", "A")
        shown.comes_to("A ", "accepted", "merged as")
        _order(world, "reject", "R", "--why", "not this way")
        shown.comes_to("R ", "rejected", "not this way")
        world.script("G", [{"sleep": 60}])
        _order(world, "guide", "G", "once more")
        shown.comes_to("G ", "working")
        _order(world, "pause", "W", "--now")
        shown.comes_to("W ", "paused", "frozen")
        _order(world, "resume", "W")
        shown.comes_to("W ", "working")
        _order(world, "stop", "B")
        shown.comes_to("B ", "stopped", "your resume")

    shown = _on_a_terminal(world, "up", "--no-server", code=130, beside=person)
    assert "accepted by" not in shown


def _order(world: World, *args: str) -> None:
    """Type a command in a second terminal."""
    done = subprocess.run(
        [BIN / "loopwright", *args], cwd=world.repo, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done


def test_a_refusal_is_gone_from_the_live_table_once_its_reason_is(world: World) -> None:
    def agent(name: str, *steps: object) -> str:
        return f"[agents.{name}]\ncommand = {world.script(name, steps).split()}\n"

    def work(name: str) -> str:
        return agent(name, {"write": {"path": name, "text": name}}, {"commit": name}, DONE)

    plan = world.plan(
        "[[tasks]]\nid = 'P1'\nagent = 'P1'\n"
        "[[tasks]]\nid = 'P2'\nagent = 'P2'\ndependencies = ['P1']\n"
        "[[tasks]]\nid = 'Q'\nagent = 'Q'\n"
        f"{work('P1')}{work('P2')}{agent('Q', ASK)}"
    )

    def person(shown: Shown) -> None:
        for name in ("agent-P1", "agent-P2"):
            shown.comes_to(name, "done")
        refused = subprocess.run(
            [BIN / "loopwright", "accept", "P2"], cwd=world.repo, check=False, capture_output=True
        )
        assert refused.returncode != 0
        shown.comes_to("agent-P2", "done", "not merged")
        _order(world, "accept", "P1")
        shown.comes_to("agent-P1", "accepted")
        shown.comes_to("agent-P2", "done", "waits for your accept or reject")

    _on_a_terminal(world, "up", plan, "--no-server", code=130, beside=person)


@pytest.mark.parametrize("no_colour", ["", "1"])
def test_a_table_is_begun_anew_for_a_terminal_of_another_size(world: World, no_colour: str) -> None:
    question = "Which separator shall the export use, and how are fields with it quoted? " * 2
    asks = [{"breakpoint": {"type": "question", "question": question}}]
    world.call("add", "x", "--command", world.script("asks", asks))

    def person(shown: Shown) -> None:
        shown.comes_to("agent-T001", "needs you")
        for columns in (60, 120, 30):
            before = len(shown.written)
            shown.resize(columns, 24)
            shown.is_begun_anew(before)
            until(lambda: "quoted?" in shown.table, "the table is drawn")
            shown_anew = shown.written[before:].rpartition(b"\x1b[2J")[2].decode()
            plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown_anew).replace("\r", "")
            assert max(map(len, plain.splitlines())) <= columns
            assert "quoted?" in plain.replace("\n", " ")

    shown = _on_a_terminal(world, "up", "--no-server", code=130, beside=person, NO_COLOR=no_colour)
    assert bool(re.search(r"\x1b\[[1-9]+m", shown)) is not bool(no_colour)


def test_the_last_line_says_what_to_type_next(world: World) -> None:
    world.settings(SETTINGS + "baseline = false\n")
    scripts: dict[str, list[Any]] = {
        "W": [{"say": "at it"}, {"sleep": 60}],
        "Q": [ASK],
        "A": [{"write": {"path": "a", "text": "a"}}, {"commit": "a"}, DONE],
    }
    for name, script in scripts.items():
        world.call("add", name, "--name", name, "--command", world.script(name, script))

    def person(shown: Shown) -> None:
        shown.comes_to("Next: loopwright answer Q TEXT", "1 done: loopwright review")
        world.script("Q", [{"sleep": 60}])
        _order(world, "answer", "Q", "Blue")
        shown.comes_to("Next: loopwright review", "(1 done)")
        _order(world, "accept", "A")
        shown.comes_to("Look closer: loopwright logs W -f")

    _on_a_terminal(world, "up", "--no-server", code=130, beside=person)


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_cuts_nothing_off_of_what_a_person_has_to_read(
    world: World, columns: int
) -> None:
    question = "Which separator shall the export use, and how are fields with it quoted? " * 4
    asks = [{"breakpoint": {"type": "question", "question": question}}]
    world.call("add", "x", "--command", world.script("asks", asks))

    def person(shown: Shown) -> None:
        shown.comes_to("agent-T001", "needs you")
        until(lambda: shown.table.count("quoted?") == 4, "the whole question is shown")
        assert max(map(len, shown.table.splitlines()[1:])) <= columns
        assert "..." not in shown.table

    _on_a_terminal(world, "up", "--no-server", code=130, beside=person, columns=columns)


def _is_whole(shown: Shown, before: int) -> bool:
    return _LINK.search(shown.written[before:]) is not None


def test_the_link_that_signs_in_is_whole_also_on_a_narrow_terminal(world: World) -> None:
    world.call("add", "x", "--command", world.script("works", [{"sleep": 60}]))

    def person(shown: Shown) -> None:
        until(lambda: b"sign in" in shown.written, "the link is told")
        shown.comes_to("agent-T001", "working")
        for columns in (80, 40):
            before = len(shown.written)
            shown.resize(columns, 24)
            shown.is_begun_anew(before)
            until(partial(_is_whole, shown, before), "the link is whole")

    _on_a_terminal(world, "up", "--port", "0", code=130, beside=person)


def test_of_a_program_that_writes_reports_the_table_shows_what_they_say(world: World) -> None:
    said = (
        '{"type":"assistant","message":{"id":"a","content":[{"type":"text","text":"Reading it"}]}}'
    )
    programs = world.folder / "programs"
    programs.mkdir()
    (programs / "claude").write_text(f"#!/bin/sh\ncat > /dev/null\necho '{said}'\nexec sleep 60\n")
    (programs / "claude").chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    shown = _on_a_terminal(
        world,
        *("run", "x", "--agent", "claude"),
        code=130,
        beside=lambda it: it.comes_to("agent-T001", "working", "Reading it"),
        PATH=path,
    )
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert re.search(r"agent-T001 +1 +working +\d+ s +Reading it", plain)
    assert '"type"' not in plain


def test_plain_and_a_dumb_terminal_give_dated_lines(world: World) -> None:
    agent = world.script("agent", [DONE])
    for number, (args, term) in enumerate((((), "dumb"), (("--plain",), "xterm"))):
        command = ("run", f"task {number}", "--command", agent, *args)
        shown = _on_a_terminal(world, *command, TERM=term)
        assert "\x1b" not in shown
        assert re.search(r"^\d\d:\d\d:\d\d agent-T00\d: attempt 1 started", shown, re.MULTILINE)


def test_what_agents_say_cannot_touch_the_terminal(world: World) -> None:
    evil = {"breakpoint": {"type": "task_complete", "summary": "done\x1b[2J\nand \u202emore"}}
    done = world.call("run", "x", "--command", world.script("agent", [evil]))
    assert "\x1b" not in done.stdout + done.stderr
    assert "\u202e" not in done.stdout + done.stderr


def test_an_attempt_on_top_of_unaccepted_work_says_whose_it_is() -> None:
    ready = on.WorkspaceReady(
        at=1.0, attempt=1, branch="agent/b", base_commit="c", base_branch="main",
        on_top_of=("T001", "T002"),
    )  # fmt: skip
    assert facts.line(ready) == "works on branch agent/b, on top of the work of T001, T002"


def test_a_first_attempt_that_waits_for_a_program_says_which_until_when_and_what_is_sooner() -> (
    None
):
    rest = UnavailableProgram(program="claude", why="rate_limit: 5 hours", until=3600.0)
    state = BackingOff(
        tally=Tally(resting=(rest,)), until=3600.0, why="rate_limit: 5 hours", fixed=True
    )
    ready = on.WorkspaceReady(
        at=60.0, attempt=1, path="/w", branch="agent/a", base_commit="c", base_branch="main"
    )
    record = AgentLifecycle(agent_id="a", task="x", work=state)
    news = Committed("a", "WorkspaceReady", "Preparing", "BackingOff", 60.0, ready, record)
    told = live_lines.line(news)
    assert told == (
        "works on branch agent/a, from main; waiting: claude is unavailable until "
        f"{instant(3600.0, 60.0)} (rate_limit: 5 hours); sooner with: loopwright resume a"
    )
