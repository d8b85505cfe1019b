"""What an attempt is handed: its summary and its prompt, and the snapshot both are made from.

Owns the files of these texts, for the agent and for people. The wording is the templates'; what
happened is gathered elsewhere.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from lifecycle.gather import snapshot_of

if TYPE_CHECKING:
    from pathlib import Path

    from communication.mailbox import Mailbox
    from lifecycle.case import Case
    from lifecycle.context import ContextSnapshot
    from lifecycle.parts import Parts
    from lifecycle.settings import Settings

_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def snapshot_for(
    parts: Parts, case: Case, mailbox: Mailbox, attempt: int, settings: Settings
) -> ContextSnapshot:
    """Gather what an attempt is to be told, a person's own summary of it included."""
    edited = parts.paths.edited(case.agent_id, attempt)
    return snapshot_of(
        case,
        builder=parts.builder,
        settings=settings,
        at=parts.clock.now(),
        completed=parts.completed,
        mail=mailbox.load(),
        person_summary=edited.read_text("utf-8", "replace") if edited.exists() else None,
    )


def hand_out(  # noqa: PLR0913, PLR0917  # an attempt's identity
    parts: Parts,
    case: Case,
    mailbox: Mailbox,
    attempt: int,
    snapshot: ContextSnapshot,
    spawn_id: str,
) -> tuple[Path, Path]:
    """Write the summary and the prompt of an attempt; return where they are."""
    summary = parts.paths.summary(case.agent_id, attempt)
    prompt = parts.paths.prompt(case.agent_id, attempt)
    texts = parts.builder.handout(
        snapshot,
        comm_file=str(mailbox.path),
        summary_file=str(summary),
        spawn_id=spawn_id,
    )
    write(summary, texts.summary)
    write(prompt, texts.prompt)
    return summary, prompt


def write_summary(parts: Parts, case: Case, attempt: int, snapshot: ContextSnapshot) -> Path:
    """Write the summary of an attempt that has not started, for people to read."""
    summary = parts.paths.summary(case.agent_id, attempt)
    write(summary, parts.builder.render(snapshot))
    keep(parts, case, attempt, snapshot)
    return summary


def keep(parts: Parts, case: Case, attempt: int, snapshot: ContextSnapshot) -> None:
    """Write down for people what an attempt's texts were made from."""
    write(parts.paths.snapshot(case.agent_id, attempt), snapshot.model_dump_json())


def write(path: Path, text: str) -> None:
    """Write a file whole, in place of one that may be there; no reader sees half of it.

    A new file is written in one go under its own name: to rename it costs as much again.
    """
    name, content = os.fspath(path), text.encode(errors="replace")
    try:
        _put(name, content)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _put(name, content)
    except FileExistsError:
        fresh = path.with_name(f".{path.name}.new")
        fresh.unlink(missing_ok=True)
        _put(os.fspath(fresh), content)
        fresh.replace(path)


def _put(name: str, content: bytes) -> None:
    file = os.open(name, _FRESH, 0o600)
    try:
        written = os.write(file, content)
        while written < len(content):
            written += os.write(file, content[written:])
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108  # beside the calls it belongs to
        raise
    finally:
        os.close(file)
