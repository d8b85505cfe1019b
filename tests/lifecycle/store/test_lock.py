"""One runner at a time owns a repository, and whoever is refused learns who that is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import RepositoryBusyError, StoreError
from lifecycle.store.lock import NAME, REQUEST, RunnerLock, holder
from tests.lifecycle.store.programs import ROOT, command
from tests.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start holders of the lock; all their input ends with the test, and so do they."""
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command("hold", tmp_path, *words),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(10)
        assert process.stdout is not None
        # Its end is seen only when no descendant holds the other side any more.
        process.stdout.read()
        process.stdout.close()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_second_runner_is_refused_naming_the_first(tmp_path: Path, start: Start) -> None:
    first = start()
    assert said(first) == f"held {first.pid}"

    with pytest.raises(RepositoryBusyError) as refused:
        RunnerLock(tmp_path).acquire()

    text = str(refused.value)
    for part in (
        f"pid {first.pid}",
        os.uname().nodename,
        "loopwright up",
        "since 2",
        str(tmp_path),
    ):
        assert part in text
    second = start()
    assert said(second).startswith("busy: another runner (loopwright up, pid")
    assert second.wait(10) == 75


def test_a_runner_waits_for_a_request_and_for_no_other_runner(tmp_path: Path) -> None:
    request, runner = RunnerLock(tmp_path, who=f"{REQUEST} for T1"), RunnerLock(tmp_path)
    request.acquire()
    assert not runner.acquire_after_requests()
    request.release()
    assert runner.acquire_after_requests()
    with pytest.raises(RepositoryBusyError):
        RunnerLock(tmp_path).acquire_after_requests()
    runner.release()


def test_the_lock_ends_with_a_killed_holder(tmp_path: Path, start: Start) -> None:
    first = start()
    said(first)
    os.kill(first.pid, signal.SIGKILL)
    first.wait(PATIENCE)

    assert holder(tmp_path) is None
    assert json.loads((tmp_path / NAME).read_text())["pid"] == first.pid
    with RunnerLock(tmp_path) as lock:
        assert (lock.holder() or {})["pid"] == os.getpid()


@pytest.mark.parametrize("kind", ["fork", "exec"])
def test_children_of_the_holder_do_not_keep_the_lock(
    tmp_path: Path, start: Start, kind: str
) -> None:
    first = start(kind)
    said(first)
    os.kill(first.pid, signal.SIGKILL)
    first.wait(PATIENCE)

    # The child may be on its way between fork and exec at this instant.
    wait_until(lambda: holder(tmp_path) is None)
    with RunnerLock(tmp_path):
        pass


def test_who_asks_for_the_holder_does_not_disturb(tmp_path: Path) -> None:
    assert holder(tmp_path) is None
    lock = RunnerLock(tmp_path, who="up")
    assert lock.holder() is None
    with lock:
        told = holder(tmp_path)
        assert told is not None
        assert told["pid"] == os.getpid()
        assert told["host"] == os.uname().nodename
        assert told["who"] == "up"
        assert lock.held
        with pytest.raises(RepositoryBusyError):
            RunnerLock(tmp_path).acquire()
    assert holder(tmp_path) is None


def test_a_holder_may_say_more_of_itself_and_it_ends_with_the_lock(tmp_path: Path) -> None:
    lock = RunnerLock(tmp_path, who="up")
    lock.note(url="http://nobody")
    with lock:
        lock.note(url="http://127.0.0.1:4747")
        told = holder(tmp_path) or {}
        assert (told["url"], told["who"], told["pid"]) == (
            "http://127.0.0.1:4747",
            "up",
            os.getpid(),
        )
        lock.note(url="")
        assert (holder(tmp_path) or {})["url"] == ""
    assert holder(tmp_path) is None


def test_taking_and_giving_back_twice_is_harmless(tmp_path: Path) -> None:
    lock = RunnerLock(tmp_path / "made" / "when needed")
    lock.acquire()
    lock.acquire()
    lock.release()
    lock.release()
    with lock:
        assert holder(tmp_path / "made" / "when needed") is not None


@pytest.mark.parametrize("content", ["", "not json", "[1]", '{"pid": 1, "host": "gone"}'])
def test_stale_content_without_a_lock_means_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content)

    assert holder(tmp_path) is None
    with RunnerLock(tmp_path):
        assert (holder(tmp_path) or {})["pid"] == os.getpid()


def test_a_lock_file_that_was_removed_keeps_nobody_out_and_nobody_in(tmp_path: Path) -> None:
    with RunnerLock(tmp_path):
        (tmp_path / NAME).unlink()
        with RunnerLock(tmp_path):
            assert holder(tmp_path) is not None


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match="cannot be opened"):
        RunnerLock(tmp_path / "file").acquire()
