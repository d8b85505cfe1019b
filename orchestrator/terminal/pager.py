"""Shows long texts in the user's pager, by git's rules, and files in the user's editor.

A pager that only a repository names is not started: agents can write that configuration.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from orchestrator.errors import OrchestratorError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

LESS = "FRX"
"""As git has it: end if it fits on a screen, keep colours, leave the text there."""


NOT_STARTED = (126, 127)
"""What a shell ends with where it finds no such program, or may not start it."""


class NoEditorError(OrchestratorError):
    """There is no editor to open."""


def pager_of(environ: Mapping[str, str], configured: Callable[[], str]) -> str:
    """Return the command of the pager; empty for none. `configured` is the user's `core.pager`."""
    found = environ.get("GIT_PAGER")
    if found is None:
        found = configured() or environ.get("PAGER")
    if found is None:
        found = "less"
    return "" if found.strip() in ("", "cat") else found


def show(text: str, environ: Mapping[str, str], configured: Callable[[], str]) -> None:
    """Print a text, through the pager on a terminal."""
    pager = pager_of(environ, configured) if sys.stdout.isatty() else ""
    if not pager or not _paged(text, pager, environ):
        sys.stdout.write(text)
        sys.stdout.flush()


def _paged(text: str, pager: str, environ: Mapping[str, str]) -> bool:
    """Tell whether the pager showed it; one that cannot be started did not."""
    env = {"LESS": LESS, "LV": "-c", **environ}
    sys.stdout.flush()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        command = ("sh", "-c", pager)
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=env)
        with process, suppress(BrokenPipeError):
            process.communicate(text.encode(errors="backslashreplace"))
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return process.returncode not in NOT_STARTED


def edit(path: Path, environ: Mapping[str, str]) -> None:
    """Open a file in the user's editor and wait for its end."""
    command = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "")
    if not command:
        raise NoEditorError("no editor is known: set EDITOR, for example EDITOR=nano")
    try:
        done = subprocess.run([*command, os.fspath(path)], check=False)
    except OSError as error:
        raise NoEditorError(f"{command[0]} cannot be started ({error.strerror})") from error
    if done.returncode:
        raise NoEditorError(f"{command[0]} ended with code {done.returncode}")
