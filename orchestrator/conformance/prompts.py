"""What the agent is asked to do in each case: plain words that any model understands.

Pure. The prompt of a breakpoint is the one that every attempt gets.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from templates.pages import Summary, prompt_page
from templates.renderer import Renderer

if TYPE_CHECKING:
    from pathlib import Path

TASK = "CONFORMANCE"
STARTED = "tool.started"
"""Made by the tool that is running when the program is stopped."""
PROBE = "probe.made"
"""Made only where nothing forbids it."""
LEFT = "left.pid"
"""Holds the process that was left in the background."""

READY = "Answer with the single word READY. Use no tool and change nothing.\n"
_FILLING = "This line only makes the prompt long; there is nothing to do about it.\n"


def breakpoint_prompt(*, agent_id: str, spawn_id: str, work: Path, mailbox: Path) -> str:
    """Return a real prompt, of a task that is done by signalling."""
    task = {
        "id": TASK,
        "title": "Signal at once",
        "description": (
            "There is nothing to change and nothing to commit. Signal `task_complete` with the "
            "summary READY at once, as described below, and stop."
        ),
        "acceptance": (),
        "verify": (),
    }
    values = {
        "agent_id": agent_id,
        "task_id": task["id"],
        "task": task,
        "spawn_id": spawn_id,
        "next_attempt": 1,
        "workspace_path": str(work),
        "branch": "",
        "comm_file": str(mailbox),
        "summary_file": str(mailbox.parent / "summary.md"),
    }
    nothing = "This is the first attempt.\n"
    return prompt_page(Renderer(), values, Summary(nothing, nothing))


def huge(size: int) -> str:
    """Return a prompt of that many bytes, whose request is at its very end."""
    lines = (size - len(READY)) // len(_FILLING)
    rest = size - len(READY) - lines * len(_FILLING)
    return _FILLING * lines + " " * (rest - 1) + "\n" * (rest > 0) + READY


def stop(seconds: int) -> str:
    """Return the request for a tool that runs long."""
    return _shell(f"echo $$ > {STARTED}; sleep {seconds}", "in the foreground, and wait for it")


def denied() -> str:
    """Return the request for a tool that is not permitted."""
    return _shell(f"touch {PROBE}", "If that is not permitted, say so and stop")


def leftovers(seconds: int) -> str:
    """Return the request for a process that outlives the turn."""
    line = f"nohup sleep {seconds} > /dev/null 2>&1 & echo $! > {LEFT}"
    return _shell(line, "It returns at once. Do not wait for the sleep, and do not stop it")


def flood(size: int) -> str:
    """Return the request to print a lot."""
    line = f"yes {shlex.quote('x' * 79)} | head -c {size}"
    return _shell(line, "Then repeat as much of its output as you can")


HANG = "Print nothing, do nothing, and do not end.\n"


def _shell(line: str, more: str) -> str:
    return (
        "Run exactly this command with your shell tool, once, from the current folder:\n\n"
        f"    {line}\n\n{more}. Then answer with the single word READY. Do nothing else.\n"
    )
