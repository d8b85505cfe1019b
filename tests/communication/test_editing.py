"""Clearing and updating an entry while others do the same."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from communication import locked_edit
from communication.errors import MailboxError
from communication.mailbox import Mailbox, ReadingKind
from tests.communication.hearing import AGENT, mail, read, word

ROOT = Path(__file__).parents[2]

STORM = """
import os, sys
from pathlib import Path
from communication.mailbox import Mailbox

mailbox = Mailbox(Path(sys.argv[1]))

def count(entry):
    entry["count"] = entry.get("count", 0) + 1

children = []
for number in range(40):
    pid = os.fork()
    if pid == 0:
        for _ in range(3):
            mailbox.update(f"agent-{number}", count)
            mailbox.update("shared", count)
        os._exit(0)
    children.append(pid)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children))
"""


def content(file: Path) -> Any:
    return json.loads(file.read_text())


def test_many_writer_processes_lose_no_update(file: Path) -> None:
    file.write_text(mail(_meta={"kept": True}, **{AGENT: word()}))
    subprocess.run([sys.executable, "-c", STORM, str(file)], check=True, cwd=ROOT, timeout=50)
    found = content(file)
    assert found.pop("shared") == {"count": 40 * 3}
    assert found.pop("_meta") == {"kept": True}
    assert found.pop(AGENT) == word()
    assert found == {f"agent-{number}": {"count": 3} for number in range(40)}
    assert sorted(path.name for path in file.parent.iterdir()) == [
        "communications.json",
        "communications.json.lock",
    ]


def test_clear_removes_the_breakpoint_and_keeps_everything_else(file: Path) -> None:
    others = {"_meta": {"v": 1}, "other": word("theirs"), "note": "free text"}
    file.write_text(json.dumps({**others, AGENT: {**word(), "mission": "all", "x": [1]}}))
    file.chmod(0o640)
    assert Mailbox(file).clear(AGENT) is None
    assert content(file) == {**others, AGENT: {"mission": "all", "x": [1]}}
    assert file.stat().st_mode & 0o777 == 0o640
    assert read(file).kind is ReadingKind.QUIET
    assert read(file, "other").kind is ReadingKind.SIGNAL


def test_clearing_what_holds_no_breakpoint_touches_nothing(file: Path) -> None:
    mailbox = Mailbox(file)
    assert mailbox.clear(AGENT) is None
    assert list(file.parent.iterdir()) == []
    file.write_text(mail(**{AGENT: {"mission": "all"}, "other": word()}))
    before = mailbox.stamp()
    assert mailbox.clear(AGENT) is None
    assert mailbox.stamp() == before
    assert list(file.parent.iterdir()) == [file]


def test_clear_drops_an_entry_that_is_no_object(file: Path) -> None:
    file.write_text(mail(**{AGENT: "task_complete", "other": word()}))
    Mailbox(file).clear(AGENT)
    assert read(file).kind is ReadingKind.QUIET
    assert read(file, "other").kind is ReadingKind.SIGNAL


@pytest.mark.parametrize("kind", ["torn", "fifo", "symlink", "directory", "hard link", "huge"])
def test_what_cannot_be_read_is_set_aside_and_never_lost(file: Path, kind: str) -> None:
    elsewhere = file.with_name("elsewhere")
    elsewhere.write_text("untouched")
    match kind:
        case "torn":
            file.write_text('{"half": ')
        case "fifo":
            os.mkfifo(file)
        case "symlink":
            file.symlink_to(elsewhere)
        case "directory":
            file.mkdir()
            (file / "inside").write_text("kept")
        case "hard link":
            file.hardlink_to(elsewhere)
        case _:
            file.touch()
            os.truncate(file, 300 * 1024 * 1024)
    found = file.lstat()
    aside = Mailbox(file).clear(AGENT)
    assert aside == file.with_name("communications.json.broken-1")
    assert (aside.lstat().st_ino, aside.lstat().st_mode) == (found.st_ino, found.st_mode)
    assert elsewhere.read_text() == "untouched"
    assert read(file).kind is not ReadingKind.INVALID
    file.unlink(missing_ok=True)

    file.write_text("again")
    again = Mailbox(file).update(AGENT, lambda entry: entry.update(word()))
    assert again == file.with_name("communications.json.broken-2")
    assert again.read_text() == "again"
    assert read(file).kind is ReadingKind.SIGNAL


def test_a_writer_waits_for_a_foreign_writer_who_is_half_done(file: Path) -> None:
    text = mail(other=word("theirs"))
    opened = file.open("w")
    opened.write(text[:20])
    opened.flush()

    def finish() -> None:
        opened.write(text[20:])
        opened.close()

    timer = threading.Timer(locked_edit.TORN_PATIENCE_S / 4, finish)
    timer.start()
    assert Mailbox(file).update(AGENT, lambda entry: entry.update(word())) is None
    timer.join()
    assert set(content(file)) == {"other", AGENT}


@pytest.mark.parametrize("kind", ["fifo", "symlink", "directory"])
def test_a_planted_lock_or_leftover_does_not_stop_a_writer(file: Path, kind: str) -> None:
    elsewhere = file.with_name("elsewhere")
    elsewhere.write_text("untouched")
    for planted in (f"{file}.lock", f"{file}.tmp"):
        match kind:
            case "fifo":
                os.mkfifo(planted)
            case "symlink":
                Path(planted).symlink_to(elsewhere)
            case _:
                Path(planted).mkdir()
    Mailbox(file).update(AGENT, lambda entry: entry.update(word()))
    assert read(file).kind is ReadingKind.SIGNAL
    assert elsewhere.read_text() == "untouched"


def test_a_lock_that_is_never_released_is_an_error_that_names_it(
    file: Path,
) -> None:
    with Path(f"{file}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(MailboxError, match=r"communications\.json\.lock has been held"):
            Mailbox(file, lock_patience_s=0.05).update(AGENT, lambda entry: entry.update(word()))
    assert not file.exists()


def test_what_nobody_could_read_is_not_written(file: Path) -> None:
    file.write_text(mail())
    before = file.read_bytes()
    deep: list[Any] = []
    for _ in range(70):
        deep = [deep]
    for value in (float("nan"), object(), "\ud800", deep, "x" * 3000):
        with pytest.raises(MailboxError, match=r"no longer be readable|would grow"):
            Mailbox(file, max_bytes=2000).update(
                AGENT,
                lambda entry: entry.update(x=value),  # noqa: B023  # called at once
            )
    assert file.read_bytes() == before
    assert not file.with_name("communications.json.tmp").exists()


def test_no_space_leaves_the_file_as_it_was(file: Path) -> None:
    code = """
import resource, signal, sys
from pathlib import Path
from communication.errors import MailboxError
from communication.mailbox import Mailbox
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    Mailbox(Path(sys.argv[1])).update("a", lambda entry: entry.update(x="y" * 3000))
except MailboxError as error:
    sys.exit(0 if "it is unchanged" in str(error) else str(error))
sys.exit("it was written")
"""
    file.write_text(mail())
    done = subprocess.run(
        [sys.executable, "-c", code, str(file)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert file.read_text() == mail()
    assert not file.with_name("communications.json.tmp").exists()
