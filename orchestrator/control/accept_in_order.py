"""Accepts work of several agents one after the other, in the order of their dependencies.

Owns the order, and which work `--all` takes. Whether a merge is possible is decided by the runner.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lifecycle.base_commits import bring_work, needs
from lifecycle.errors import LifecycleError, UnknownLifecycleError
from lifecycle.judging.unaccepted_work import Along, UnacceptedWork
from lifecycle.machine.states import Completed
from lifecycle.state_words import spelled, word_on
from orchestrator.config.settings import load_settings
from orchestrator.control import commands, requests
from orchestrator.control.open_store import known, store_of
from orchestrator.control.outcomes import OperatorOutcome
from orchestrator.drafting.draft_task import is_draft
from orchestrator.terminal import exits
from runtime.branches import BranchManager
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lifecycle.ports import Bring
    from lifecycle.record import AgentLifecycle
    from lifecycle.store.sqlite.store import SqliteStore
    from orchestrator.control.commands import OperatorCommand


@dataclass(frozen=True, slots=True)
class Chosen:
    """Whose work is to be accepted, in this order, and what is left for a person to look at."""

    agents: tuple[str, ...]
    left: tuple[OperatorOutcome, ...] = ()
    named: frozenset[str] = frozenset()
    """Those that were named, and not taken along."""


async def accept(
    repo: Path,
    command: OperatorCommand,
    agents: Sequence[str],
    *,
    tell: Callable[[OperatorOutcome], None],
    bring: Bring | None = None,
) -> tuple[OperatorOutcome, ...]:
    """Accept the work of these agents, or all that may be where none is named.

    `bring` has work here that a worker pushed; what comes along with it is seen only then.
    """
    try:
        async with store_of(repo) as store:
            chosen = await choose(repo, store, agents, along=command.along, bring=bring)
    except UnknownLifecycleError as refusal:
        await _note_unknown(repo, command, agents, refusal)
        raise
    outcomes = list(chosen.left)
    for left in chosen.left:
        tell(left)
    waiting: set[str] = {left.agent_id for left in chosen.left}
    for agent_id in chosen.agents:
        # What was seen of one says nothing about what comes along with it.
        seen = command.expect_head if agent_id in chosen.named else ""
        one = replace(command, agent_id=agent_id, expect_head=seen)
        outcome = await _one(repo, one, waiting)
        if outcome.exit_code != exits.COMPLETE:
            waiting.add(agent_id)
        tell(outcome)
        outcomes.append(outcome)
    return tuple(outcomes)


async def _note_unknown(
    repo: Path, command: OperatorCommand, agents: Sequence[str], refusal: UnknownLifecycleError
) -> None:
    """Record and log what was asked under a name that stands for no lifecycle."""
    settings = load_settings(repo, environ=os.environ)
    async with store_of(repo) as store:
        for name in agents:
            try:
                await known(store, name, repo)
            except UnknownLifecycleError:
                event = command.event(requests.now())
                await requests.refuse(repo, store, name, event, str(refusal), settings=settings)
                return


async def _one(repo: Path, command: OperatorCommand, waiting: set[str]) -> OperatorOutcome:
    try:
        outcome = await commands.steer(repo, command)
    except LifecycleError as refusal:
        return OperatorOutcome(
            agent_id=command.agent_id,
            verb=command.verb,
            text=str(refusal),
            state="",
            record_state="",
            exit_code=exits.USAGE,
            changed=False,
        )
    if waiting.intersection(outcome.details.get("comes_along", ())):
        # It was in order to ask for it: what it builds on could not be merged just now.
        return replace(outcome, exit_code=exits.BLOCKED)
    return outcome


async def choose(
    repo: Path,
    store: SqliteStore,
    agents: Sequence[str],
    *,
    along: bool,
    bring: Bring | None = None,
) -> Chosen:
    """Find the agents that are meant, and put them into the order of their dependencies."""
    records = {each.agent_id: each async for each in store.every()}
    left: tuple[OperatorOutcome, ...] = ()
    if agents:
        found = [await known(store, name, repo) for name in agents]
        wanted = {record.agent_id: record for record in found}
    else:
        wanted, left = _acceptable(records)
    named = frozenset(wanted)
    left += await _not_here(store, wanted, bring)
    comes = await _comes_along(repo, store, wanted)
    while along:
        more = {
            each.agent_id: records[each.agent_id]
            for coming in comes.values()
            for each in coming
            if each.may_be_accepted and each.agent_id not in wanted
        }
        left += await _not_here(store, more, bring)
        if not more:
            break
        wanted |= more
        comes |= await _comes_along(repo, store, more)
    return Chosen(_in_order(wanted, comes), left, named)


def _acceptable(
    records: Mapping[str, AgentLifecycle],
) -> tuple[dict[str, AgentLifecycle], tuple[OperatorOutcome, ...]]:
    """Return the work that is green and changed no rule of judgement, and the rest with why."""
    green, left = {}, []
    for record in sorted(records.values(), key=lambda each: each.cursor):
        work = record.work
        if not isinstance(work, Completed) or is_draft(record):
            continue
        why = "no verify command judged it" if not work.passed else ""
        if work.flagged:
            why = f"it changed tests or gates ({', '.join(work.flagged[:5])})"
        if not why:
            green[record.agent_id] = record
            continue
        left.append(
            _left(
                record,
                f"left for you to look at: {why}",
                f"Then: loopwright accept {record.agent_id}",
            )
        )
    return green, tuple(left)


async def _not_here(
    store: SqliteStore, wanted: dict[str, AgentLifecycle], bring: Bring | None
) -> tuple[OperatorOutcome, ...]:
    """Have here what workers pushed; take out of `wanted` what cannot be had, and say why."""
    left: list[OperatorOutcome] = []
    for agent_id, record in tuple(wanted.items()):
        try:
            await bring_work(store, record, bring)
        except RuntimeFault as fault:
            del wanted[agent_id]
            left.append(_left(record, f"its work cannot be fetched: {fault}"))
    return tuple(left)


def _left(record: AgentLifecycle, text: str, hint: str = "") -> OperatorOutcome:
    return OperatorOutcome(
        agent_id=record.agent_id,
        verb="accept",
        text=text,
        state=spelled(word_on(record)),
        record_state=str(record.state),
        exit_code=exits.BLOCKED,
        changed=False,
        hint=hint,
    )


async def _comes_along(
    repo: Path, store: SqliteStore, records: Mapping[str, AgentLifecycle]
) -> dict[str, tuple[Along, ...]]:
    look = UnacceptedWork(store, BranchManager(repo))
    return {agent: await look.of_record(record) for agent, record in records.items()}


def _in_order(
    wanted: Mapping[str, AgentLifecycle], comes: Mapping[str, tuple[Along, ...]]
) -> tuple[str, ...]:
    """Put first what others depend on or hold; else as asked for."""
    of_task = {record.task_id: agent for agent, record in wanted.items()}
    ordered: list[str] = []
    begun: set[str] = set()

    def put(agent_id: str) -> None:
        if agent_id in begun:
            return
        begun.add(agent_id)
        record = wanted[agent_id]
        planned = record.facts.get("task", {}).get("dependencies", ())
        needed = [of_task[name] for name in needs(planned, record.work) if name in of_task]
        held = [each.agent_id for each in comes[agent_id] if each.agent_id in wanted]
        for first in (*needed, *held):
            put(first)
        ordered.append(agent_id)

    for agent_id in wanted:
        put(agent_id)
    return tuple(ordered)


def exit_code(outcomes: Sequence[OperatorOutcome]) -> int:
    """Return 2 when something was refused, else 3 when something waits, else 0."""
    codes = {outcome.exit_code for outcome in outcomes}
    return next((code for code in (exits.USAGE, exits.BLOCKED) if code in codes), exits.COMPLETE)
