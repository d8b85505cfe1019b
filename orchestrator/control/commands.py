"""A person's command for one lifecycle, from the request to its outcome.

Owns the waiting for what follows from it; `outcomes` has the words for that. Whether it is possible
is decided by the machine.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError
from lifecycle.machine import events as on
from lifecycle.machine.frozen import frozen
from lifecycle.machine.states import (
    ACTIVE,
    About,
    Accepted,
    AwaitingHuman,
    BackingOff,
    Completed,
    Rejected,
    Suspended,
)
from lifecycle.state_words import STOPPED, word_on
from orchestrator.config.settings import load_settings
from orchestrator.control import requests
from orchestrator.control.open_store import known, runner_of, store_of
from orchestrator.control.outcomes import CommandEffect, OperatorOutcome, outcome_of
from orchestrator.drafting.draft_task import is_draft

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from lifecycle.record import AgentLifecycle
    from lifecycle.settings import Settings
    from lifecycle.store.sqlite.store import SqliteStore

TELL_AFTER = 1.5
"""Seconds after which it is said what takes so long."""
LOOK_EVERY = 0.05
"""Seconds between two looks at what follows from a command."""
ITS_TURN = 1.0
"""Seconds within which a runner starts a due attempt, if it runs that lifecycle."""
RUNS_ALL = ("loopwright up", "loopwright serve")


@frozen
class OperatorCommand:
    """What somebody asks of a lifecycle."""

    verb: str
    agent_id: str
    text: str = ""
    """What is said to the agent."""
    by: str = ""
    why: str = ""
    """The reason, for the record."""
    wait_s: float = 10.0
    settle_s: float | None = None
    """Seconds to wait for what follows from it; by default as long as for the answer."""
    now: bool = False
    """A pause that also freezes the process under way."""
    turns: int = 0
    """Of the runner, after which a pause ends by itself; 0: only a person resumes it."""
    along: bool = False
    """An accept with work of others that comes along and was not accepted."""
    verify: bool = True
    """An accept only if the merged files pass the verify commands."""
    expect_head: str = ""
    """An accept only of this commit: what was looked at, and nothing that came after."""
    progress: Callable[[str], None] | None = None
    """Called with a text when something takes long."""

    def event(self, at: float) -> on.PersonEvent:  # noqa: PLR0911  # one line per verb reads best
        """Return the fact it becomes."""
        by, text, why = self.by, self.text, self.why
        match self.verb:
            case "pause":
                return on.PauseRequested(at=at, by=by, why=why, now=self.now, turns=self.turns)
            case "resume":
                return on.ResumeRequested(at=at, by=by, why=why)
            case "stop":
                return on.StopRequested(at=at, by=by, why=why, pause=True)
            case "guide":
                return on.Guided(at=at, by=by, text=text)
            case "unblock":
                return on.Unblocked(at=at, by=by, why=why, note=text)
            case "answer":
                return on.Answered(at=at, by=by, text=text)
            case "approve":
                return on.SummaryApproved(at=at, by=by, why=why)
            case "accept":
                return on.AcceptRequested(
                    at=at,
                    by=by,
                    why=why,
                    along=self.along,
                    verify=self.verify,
                    head=self.expect_head,
                )
            case _:
                return on.RejectRequested(at=at, by=by, why=why)


async def steer(repo: Path, command: OperatorCommand) -> OperatorOutcome:
    """Ask, wait for what follows, and put it into words; LifecycleError tells a refusal."""
    settings = load_settings(repo, environ=os.environ)
    event = command.event(requests.now())
    async with store_of(repo) as store:
        try:
            before = await known(store, command.agent_id, repo)
            require_sense(command, before)
        except LifecycleError as refusal:
            await requests.refuse(
                repo, store, command.agent_id, event, str(refusal), settings=settings
            )
            raise
        runner = runner_of(repo)
        command = replace(command, agent_id=before.agent_id)
        async with telling(command, settings):
            try:
                await requests.send(
                    repo, command.agent_id, event, wait_s=command.wait_s, settings=settings
                )
            except LifecycleError as refusal:
                if runner is None and command.verb == "resume" and _lacks_a_runner(before):
                    raise LifecycleError(
                        f"{command.agent_id} is stopped because no runner is alive; start it "
                        "with: loopwright up"
                    ) from refusal
                raise
            record = await settled_after(
                store, command, event, runs=lambda: runner_of(repo) is not None
            )
        changed = await took_effect(store, command.agent_id, event)
        left = await left_behind(store, command.agent_id) if changed else ""
        apart = (
            await not_together(store, command.agent_id, event) if command.verb == "accept" else ""
        )
        who = str(runner.get("who") or "another") if runner is not None else ""
        runs = who.startswith(RUNS_ALL) or (bool(who) and await _moves(store, record))
        ticked = await ticked_by(store, repo, command, record, settings)
        return await outcome_of(
            CommandEffect(
                repo=repo,
                verb=command.verb,
                before=before,
                record=record,
                changed=changed,
                who=who,
                runs=runs,
                left=left,
                apart=apart,
                now=command.now,
                ticked=ticked,
            )
        )


async def ticked_by(
    store: SqliteStore,
    repo: Path,
    command: OperatorCommand,
    record: AgentLifecycle,
    settings: Settings,
) -> str:
    """Tick what an accept has done, if its runner did not yet; say where."""
    if command.verb != "accept" or not settings.tick_tasks:
        return ""
    from orchestrator.tasks.ticks import not_yet, settle  # noqa: PLC0415  # only after an accept

    try:
        return await settle(store, repo, record, requests.now())
    except OSError as problem:
        return not_yet(record, problem)


def _lacks_a_runner(record: AgentLifecycle) -> bool:
    """Tell whether a lifecycle is stopped only because nobody runs it."""
    return word_on(record, runs=False) == STOPPED and not isinstance(record.work, Suspended)


def require_sense(command: OperatorCommand, record: AgentLifecycle) -> None:
    """Refuse to merge a draft of a plan, and to let an agent go on without the answer it wants."""
    work = record.work
    if command.verb == "accept" and is_draft(record):
        raise LifecycleError(
            f"{record.agent_id} drafts a plan, and drafts are not merged: `loopwright plan` writes "
            f"them; `loopwright reject {record.agent_id}` removes this one"
        )
    if command.verb != "unblock" or command.text or not isinstance(work, AwaitingHuman):
        return
    if work.about is About.QUESTION:
        raise LifecycleError(
            f'{command.agent_id} asks "{work.text}"; loopwright answer {command.agent_id} "TEXT"'
        )


@asynccontextmanager
async def telling(command: OperatorCommand, settings: Settings) -> AsyncIterator[None]:
    """Say after a moment what a merge waits for."""
    progress = command.progress
    if progress is None:
        yield
        return
    gates = ", ".join(f"`{gate}`" for gate in settings.verify) or "its verify commands"
    what = f"merging; a new merge result is verified first ({gates})"
    text = f"{command.agent_id}: {what}"
    timer = asyncio.get_running_loop().call_later(TELL_AFTER, progress, text)
    try:
        yield
    finally:
        timer.cancel()


async def settled_after(
    store: SqliteStore,
    command: OperatorCommand,
    event: on.PersonEvent,
    runs: Callable[[], bool] = lambda: True,
) -> AgentLifecycle:
    """Wait until the command is carried out, at most as long as its sender wants."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    end = begun + (command.wait_s if command.settle_s is None else command.settle_s)
    while True:
        record = await store.get(command.agent_id)
        if record is None:
            raise LifecycleError(f"{command.agent_id} was removed meanwhile")
        work = record.work
        merging = isinstance(work, Completed) and work.merging
        leaving = command.verb in ("accept", "reject") and await _leaves(store, record, event)
        if not (merging or leaving) or loop.time() > end:
            return record
        if loop.time() > begun + command.wait_s and not runs():
            return record
        await asyncio.sleep(LOOK_EVERY)


def _is(kept: on.Event, event: on.PersonEvent) -> bool:
    """Tell whether that is our event; of its words secrets may have been taken out since."""
    return type(kept) is type(event) and kept.at == event.at and kept.by == event.by


async def _leaves(store: SqliteStore, record: AgentLifecycle, event: on.PersonEvent) -> bool:
    """Tell whether workspace and branch have yet to be removed because of this event."""
    if isinstance(event, on.AcceptRequested) and not isinstance(record.work, Accepted):
        return False  # what is not merged stays, also where it goes back to its agent
    if isinstance(record.work, (*ACTIVE, Completed)):
        return isinstance(event, on.RejectRequested)
    entries = await store.journal(record.agent_id, limit=20, newest=True)
    # What had been given up is removed before a person's reject is written down.
    given_up = Rejected.__name__
    asked = any(_is(entry.event, event) and entry.before != given_up for entry in entries)
    gone = any(isinstance(entry.event, on.WorkspaceRemoved) for entry in entries)
    return asked and not gone


async def _moves(store: SqliteStore, record: AgentLifecycle) -> bool:
    """Tell whether a lifecycle whose next attempt is due gets one."""
    loop = asyncio.get_running_loop()
    end = loop.time() + ITS_TURN
    while loop.time() < end:
        work = record.work
        if not isinstance(work, BackingOff) or work.until > requests.now():
            return True
        await asyncio.sleep(LOOK_EVERY)
        record = await store.get(record.agent_id) or record
    return False


async def took_effect(store: SqliteStore, agent_id: str, event: on.PersonEvent) -> bool:
    """Tell whether a command has been decided."""
    entries = await store.journal(agent_id, limit=100, newest=True)
    return any(_is(entry.event, event) for entry in entries)


async def not_together(store: SqliteStore, agent_id: str, event: on.PersonEvent) -> str:
    """Return why a merge failed since it was asked for, if an agent is to resolve it."""
    entries = await store.journal(agent_id, limit=100, newest=True)
    told = [
        entry.event.text
        for entry in entries
        if isinstance(entry.event, on.MergeFailed)
        and entry.event.apart
        and entry.event.at >= event.at
        and entry.after != Completed.__name__
    ]
    return told[-1] if told else ""


async def left_behind(store: SqliteStore, agent_id: str) -> str:
    """Return why the workspace of an ended lifecycle could not be removed; empty if it was."""
    entries = await store.journal(agent_id, limit=20, newest=True)
    told = [entry.event for entry in entries if isinstance(entry.event, on.WorkspaceRemoved)]
    return told[-1].problem if told else ""
