"""What an attempt is handed: its summary and its prompt, and the snapshot both are made from.

Owns the files of these texts, for the agent and for people. The wording is the templates'; what
happened is gathered elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.context import NO_WAYS
from lifecycle.gather import snapshot_of
from lifecycle.masking import masked
from runtime.ownership import make_private

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from communication.mailbox import Mailbox
    from lifecycle.case import Case
    from lifecycle.context import ContextSnapshot, Handout, Ways
    from lifecycle.parts import Parts
    from lifecycle.settings import Settings
    from runtime.agents.adapter import File

_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def snapshot_for(
    parts: Parts, case: Case, mailbox: Mailbox, attempt: int, settings: Settings
) -> ContextSnapshot:
    """Gather what an attempt is to be told, a person's own summary of it included."""
    snapshot = snapshot_of(
        case,
        builder=parts.builder,
        settings=settings,
        at=parts.clock.now(),
        completed=parts.completed,
        mail=mailbox.load(),
        person_summary=_text_of(parts.paths.edited(case.agent_id, attempt)),
    )
    return masked(snapshot, parts.masker)


def _text_of(edited: Path) -> str | None:
    if not os.path.lexists(edited):  # as before nearly every start, and cheaper than to fail
        return None
    try:
        return edited.read_text("utf-8", "replace")
    except FileNotFoundError:
        return None


def texts_for(  # noqa: PLR0913, PLR0917  # what was found out before, in this order
    parts: Parts,
    case: Case,
    mailbox: Mailbox,
    snapshot: ContextSnapshot,
    spawn_id: str,
    ways: Ways = NO_WAYS,
) -> Handout:
    """Render summary and prompt of the next attempt; write the summary for the agent."""
    summary = parts.paths.summary(case.agent_id, snapshot.next_attempt)
    texts = parts.builder.handout(
        snapshot,
        comm_file=str(mailbox.path),
        summary_file=str(summary),
        spawn_id=spawn_id,
        ways=ways,
    )
    write(summary, texts.summary)
    return texts


@contextlib.contextmanager
def readable(text: str, path: Path) -> Iterator[Path | int]:
    """Give a text as a file: an open one in memory where the platform can, else one at this path.

    A new file on disk may cost as much as starting a process.
    """
    if sys.platform != "linux":
        write(path, text)
        yield path
        return
    file = os.memfd_create("prompt")
    try:
        _fill(file, text.encode(errors="replace"))
        os.lseek(file, 0, os.SEEK_SET)
        yield file
    finally:
        os.close(file)


def write_summary(parts: Parts, case: Case, attempt: int, snapshot: ContextSnapshot) -> Path:
    """Write the summary of an attempt that has not started, for people to read."""
    summary = parts.paths.summary(case.agent_id, attempt)
    write(summary, parts.builder.render(snapshot))
    write(parts.paths.snapshot(case.agent_id, attempt), snapshot.model_dump_json())
    return summary


def write_config(folder: Path, files: Iterable[File], *, needed: bool) -> None:
    """Write the private settings of one attempt's program; nobody else may read them."""
    files = tuple(files)
    if not files and not needed:
        return
    make_private(folder)
    for file in files:
        write(Path(file.path), file.text)


def drop_config(folder: Path) -> None:
    """Remove them again, where there are any."""
    if os.path.lexists(folder):
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # that of another attempt may still be there
            folder.parent.rmdir()


def keep(parts: Parts, case: Case, snapshot: ContextSnapshot, prompt: str) -> None:
    """Write down for people what an attempt was started with: soon, and not in its way."""
    attempt = snapshot.next_attempt
    facts = parts.paths.snapshot(case.agent_id, attempt)
    told = parts.paths.prompt(case.agent_id, attempt)
    parts.scribe.note(partial(_keep, parts, facts, snapshot, told, prompt))


def _keep(parts: Parts, facts: Path, snapshot: ContextSnapshot, told: Path, prompt: str) -> None:
    try:
        write(facts, snapshot.model_dump_json())
        write(told, prompt)
    except OSError as problem:
        # The agent lives; that a full disk keeps these from people must not hide that.
        parts.report("lifecycle_handout_not_kept", path=str(facts), reason=str(problem))


def write(path: Path, text: str) -> None:
    """Write a file whole, in place of one that may be there; no reader sees half of it.

    A new file is written in one go under its own name: to rename it costs as much again.
    """
    name, content = os.fspath(path), text.encode(errors="replace")
    try:
        _put(name, content)
    except FileNotFoundError:
        make_private(path.parent)
        _put(name, content)
    except FileExistsError:
        fresh = path.with_name(f".{path.name}.new")
        fresh.unlink(missing_ok=True)
        _put(os.fspath(fresh), content)
        fresh.replace(path)


def _put(name: str, content: bytes) -> None:
    file = os.open(name, _FRESH, 0o600)
    try:
        _fill(file, content)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108  # beside the calls it belongs to
        raise
    finally:
        os.close(file)


def _fill(file: int, content: bytes) -> None:
    written = os.write(file, content)
    while written < len(content):
        written += os.write(file, content[written:])
