"""What an attempt is handed: its summary and its prompt, and the snapshot both are made from.

Owns the files of these texts, for the agent and for people. The wording is the templates'; what
happened is gathered elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.gather import snapshot_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from communication.mailbox import Mailbox
    from lifecycle.case import Case
    from lifecycle.context import ContextSnapshot
    from lifecycle.parts import Parts
    from lifecycle.settings import Settings

_FRESH = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


def summarize(
    parts: Parts, case: Case, mailbox: Mailbox, attempt: int, settings: Settings
) -> tuple[ContextSnapshot, Path]:
    """Write the summary of an attempt; return what it was rendered from, and where it is."""
    edited = parts.paths.edited(case.agent_id, attempt)
    snapshot = snapshot_of(
        case,
        builder=parts.builder,
        settings=settings,
        at=parts.clock.now(),
        completed=parts.completed,
        mail=mailbox.load(),
        person_summary=edited.read_text("utf-8", "replace") if edited.exists() else None,
    )
    summary = parts.paths.summary(case.agent_id, attempt)
    write(summary, parts.builder.render(snapshot))
    return snapshot, summary


def keep(
    parts: Parts, case: Case, attempt: int, snapshot: ContextSnapshot, prompt: str = ""
) -> None:
    """Write down for people what an attempt was started with."""
    paths = parts.paths
    write(paths.snapshot(case.agent_id, attempt), snapshot.model_dump_json())
    if prompt:
        write(paths.prompt(case.agent_id, attempt), prompt)


@contextlib.contextmanager
def readable(text: str, path: Path) -> Iterator[Path]:
    """Give a text as a file: in memory where the platform can, else at this path.

    A new file on disk may cost as much as starting a process.
    """
    if sys.platform != "linux":
        write(path, text)
        yield path
        return
    file = os.memfd_create("prompt")
    try:
        with os.fdopen(file, "wb", closefd=False) as stream:
            stream.write(text.encode(errors="replace"))
        yield Path(f"/proc/self/fd/{file}")
    finally:
        os.close(file)


def write(path: Path, text: str) -> None:
    """Write a file whole; a reader never sees half of it."""
    fresh = path.with_name(f".{path.name}.new")
    try:
        file = os.open(fresh, _FRESH, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(fresh, _FRESH, 0o600)
    with os.fdopen(file, "wb") as stream:
        stream.write(text.encode(errors="replace"))
    fresh.replace(path)
