"""What an attempt is handed: its summary and its prompt, and the snapshot both are made from.

Also keeps them for people. The wording is the templates'; what happened is gathered elsewhere.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from lifecycle.context.collect import snapshot_of
from lifecycle.context.files import write
from lifecycle.context.snapshot import NO_WAYS
from lifecycle.mask_values import masked

if TYPE_CHECKING:
    from pathlib import Path

    from communication.mailbox import Mailbox
    from lifecycle.context.snapshot import ContextSnapshot, Handout, Ways
    from lifecycle.services import MachineServices
    from lifecycle.settings import Settings
    from lifecycle.working_copy import LocalCopy


def snapshot_for(
    machine: MachineServices, local: LocalCopy, mailbox: Mailbox, attempt: int, settings: Settings
) -> ContextSnapshot:
    """Gather what an attempt is to be told, a person's own summary of it included."""
    snapshot = snapshot_of(
        local,
        builder=machine.builder,
        settings=settings,
        at=machine.shared.clock.now(),
        completed=machine.shared.completed,
        mail=mailbox.load(),
        person_summary=_text_of(machine.paths.edited(local.agent_id, attempt)),
    )
    return masked(snapshot, machine.shared.masker)


def _text_of(edited: Path) -> str | None:
    if not os.path.lexists(edited):  # as before nearly every start, and cheaper than to fail
        return None
    try:
        return edited.read_text("utf-8", "replace")
    except FileNotFoundError:
        return None


def texts_for(  # noqa: PLR0913, PLR0917  # what was found out before, in this order
    machine: MachineServices,
    local: LocalCopy,
    mailbox: Mailbox,
    snapshot: ContextSnapshot,
    spawn_id: str,
    ways: Ways = NO_WAYS,
) -> Handout:
    """Render summary and prompt of the next attempt; write the summary for the agent."""
    summary = machine.paths.summary(local.agent_id, snapshot.next_attempt)
    texts = machine.builder.handout(
        snapshot,
        comm_file=str(mailbox.path),
        summary_file=str(summary),
        spawn_id=spawn_id,
        ways=ways,
    )
    write(summary, texts.summary)
    return texts


def write_summary(
    machine: MachineServices, local: LocalCopy, attempt: int, snapshot: ContextSnapshot
) -> Path:
    """Write the summary of an attempt that has not started, for people to read."""
    summary = machine.paths.summary(local.agent_id, attempt)
    write(summary, machine.builder.render(snapshot))
    write(machine.paths.snapshot(local.agent_id, attempt), snapshot.model_dump_json())
    return summary


def save_for_people(
    machine: MachineServices, local: LocalCopy, snapshot: ContextSnapshot, prompt: str
) -> None:
    """Write down for people what an attempt was started with: soon, and not in its way."""
    attempt = snapshot.next_attempt
    facts = machine.paths.snapshot(local.agent_id, attempt)
    told = machine.paths.prompt(local.agent_id, attempt)
    machine.background.note(partial(_save_for_people, machine, facts, snapshot, told, prompt))


def _save_for_people(
    machine: MachineServices, facts: Path, snapshot: ContextSnapshot, told: Path, prompt: str
) -> None:
    try:
        write(facts, snapshot.model_dump_json())
        write(told, prompt)
    except OSError as problem:
        # The agent lives; that a full disk keeps these from people must not hide that.
        machine.shared.report("lifecycle_handout_not_kept", path=str(facts), reason=str(problem))
