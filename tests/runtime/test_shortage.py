"""A shortage of the machine is told from everything else that fails, and told as what it is."""

from __future__ import annotations

import errno
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from runtime.errors import GitError, ShortageError, SpawnError
from runtime.git.command import GitCall
from runtime.shortage import said_by_program, shortage_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["EMFILE", "ENFILE", "EAGAIN", "ENOMEM"])
def test_each_shortage_is_named_with_what_to_do(name: str) -> None:
    told = shortage_of(OSError(getattr(errno, name), "no"))
    assert told.startswith("this machine is short of ")
    assert f"({name}): " in told
    assert "lower max_live_agents" in told


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOENT, "no such file"),
        OSError(errno.ENOSPC, "no space"),
        PermissionError(errno.EACCES, "may not"),
        RuntimeError("cannot reuse already awaited coroutine"),
        SpawnError("x was not found"),
        GitError("fatal: bad object HEAD"),
    ],
)
def test_nothing_else_is_one(error: Exception) -> None:
    assert not shortage_of(error)


def test_a_thread_and_memory_that_cannot_be_had_are_shortages_too() -> None:
    assert "(EAGAIN)" in shortage_of(RuntimeError("can't start new thread"))
    assert "(ENOMEM)" in shortage_of(MemoryError())


def test_what_an_error_was_raised_from_counts() -> None:
    outer = SpawnError("the agent cannot be started")
    outer.__cause__ = GitError("git cannot be started")
    outer.__cause__.__cause__ = OSError(errno.EMFILE, "too many")
    assert "(EMFILE)" in shortage_of(outer)


def test_an_error_that_was_raised_from_itself_is_looked_at_once() -> None:
    error = SpawnError("no")
    error.__cause__ = error
    assert not shortage_of(error)


@pytest.mark.parametrize(
    ("stderr", "name"),
    [
        ("error: cannot fork() for rev-list: Resource temporarily unavailable", "EAGAIN"),
        ("fatal: unable to create thread: Resource temporarily unavailable", "EAGAIN"),
        ("error: cannot create async thread: Cannot allocate memory", "ENOMEM"),
        ("fatal: Out of memory, malloc failed (tried to allocate 1048576 bytes)", "ENOMEM"),
        ("fatal: unable to create '/r/.git/index.lock': Too many open files", "EMFILE"),
        ("error: unable to open '/r': Too many open files in system", "ENFILE"),
    ],
)
def test_git_that_fails_of_a_shortage_says_so(stderr: str, name: str) -> None:
    assert f"({name})" in said_by_program(stderr) or (name == "ENOMEM" and "thread" in stderr)


@pytest.mark.parametrize(
    "stderr",
    [
        "",
        "fatal: not a git repository",
        "remote: fatal: Out of memory, malloc failed",
        "error: pathspec 'thread' did not match any file(s) known to git",
    ],
)
def test_other_words_of_git_and_those_of_other_machines_are_no_shortage(stderr: str) -> None:
    assert not said_by_program(stderr)


def _git(folder: Path, words: str) -> GitCall:
    """Return a call of a program that fails like git, with these words."""
    program = folder / "git"
    program.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 128\n")
    program.chmod(0o755)
    return GitCall(("status",), (str(program),), folder, {"PATH": os.defpath}, 10.0)


async def test_a_git_that_ran_short_gives_no_answer(tmp_path: Path) -> None:
    call = _git(tmp_path, "error: cannot fork() for gc: Resource temporarily unavailable")
    with pytest.raises(ShortageError, match=r"\(EAGAIN\)"):
        await call.run()
    with pytest.raises(ShortageError, match="git says: error: cannot fork"):
        call.run_blocking()


async def test_a_git_that_cannot_be_started_for_a_shortage_is_not_a_missing_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    call = _git(tmp_path, "")
    monkeypatch.setattr(subprocess, "Popen", refuse)
    for words in (r"short of processes", "git cannot be started: this machine"):
        with pytest.raises(ShortageError, match=words):
            await call.run()
