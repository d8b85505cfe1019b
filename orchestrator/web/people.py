"""What is asked of lifecycles over HTTP, carried out in the runner's own process.

The rules and words are those of the commands. There must be no second store on the database in this
process: closing one takes the file locks of all others with it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError
from lifecycle.masking import masked
from lifecycle.plan import Agent
from orchestrator.cli import exits
from orchestrator.fitness import exempted
from orchestrator.jobs import startable_from
from orchestrator.members import add_alone, added_as
from orchestrator.outcomes import Facts, outcome_of, refusal_of
from orchestrator.population import TURNS, is_held
from orchestrator.requests import LOOK_EVERY, UnansweredError
from orchestrator.steering import RUNS_ALL, lacks_words, left_behind, settled_after, took_effect
from orchestrator.web.problems import Problem, refused, unknown

if TYPE_CHECKING:
    from lifecycle.machine.events import PersonEvent
    from lifecycle.record import AgentLifecycle
    from orchestrator.members import Addition
    from orchestrator.outcomes import Outcome
    from orchestrator.steering import Wish
    from orchestrator.web.office import Office


async def found(office: Office, agent_id: str) -> AgentLifecycle:
    """Return a lifecycle, or say that there is none."""
    record = await office.store.get(agent_id)
    if record is None:
        raise unknown(f"there is no lifecycle {agent_id!r}", "GET /api/v1/lifecycles lists all")
    return record


async def pause(office: Office, wish: Wish, turns: int | None) -> Outcome:
    """Pause a lifecycle, for so many turns of its runner or until it is resumed."""
    record = await found(office, wish.agent_id)
    fresh = not is_held(record.work)
    if fresh and turns is None:
        await office.store.remove(TURNS, record.agent_id)
    elif fresh:
        # First, so that the runner finds it when it hears of the pause.
        await office.store.put(TURNS, record.agent_id, {"turns": turns})
    try:
        return await steer(office, wish)
    except Problem:
        if fresh and turns is not None:
            await office.store.remove(TURNS, record.agent_id)
        raise


async def steer(office: Office, wish: Wish) -> Outcome:
    """Ask, wait for what follows, and put it into words; a Problem tells a refusal."""
    before = await found(office, wish.agent_id)
    event = wish.event(office.now())
    try:
        lacks_words(wish, before)
        await _send(office, wish, event)
        record = await settled_after(office.store, wish, event)
        changed = await took_effect(office.store, wish.agent_id, event)
        left = await left_behind(office.store, wish.agent_id) if changed else ""
        who = RUNS_ALL[1]
        facts = Facts(
            office.repo, wish, before, record, changed=changed, who=who, runs=True, left=left
        )
        outcome = await outcome_of(facts)
    except UnansweredError:
        raise
    except LifecycleError as refusal:
        present = await office.store.get(wish.agent_id) or before
        raise refused(str(refusal_of(wish, present, refusal))) from refusal
    if outcome.exit_code != exits.COMPLETE:
        raise refused(outcome.text, outcome.hint)
    return outcome


async def add(office: Office, addition: Addition) -> tuple[AgentLifecycle, list[str]]:
    """Add a lifecycle and let it begin; also returns which budgets do not hold it, as told."""
    engine, settings = office.engine, office.settings()
    by, name = addition.by, addition.name or addition.text
    if addition.base is not None:
        await startable_from(office.repo, addition.base)
    async with office.adding:
        try:
            with add_alone(engine.parts.paths.root):
                record = await added_as(office.store, addition, settings)
        except LifecycleError as refusal:
            await office.audit.record("add", by, name, "refused", str(refusal))
            raise
    await office.audit.record("add", by, record.agent_id, "done", record.task)
    warnings = list(exempted(Agent.model_validate(record.facts["agent"]), settings))
    for text in warnings:
        office.report("budget_unheld", agent_id=record.agent_id, reason=text)
    if engine.revive is not None:
        engine.revive(record)
    return record, warnings


async def _send(office: Office, wish: Wish, event: PersonEvent) -> None:
    """Leave the wish where the runner finds it, and wait until it is decided."""
    clock = asyncio.get_running_loop().time
    end = clock() + wish.wait_s
    event = masked(event, office.engine.parts.masker)
    request = await office.store.ask(wish.agent_id, event)
    while (problem := await office.store.request_outcome(request)) is None:
        if clock() > end:
            raise UnansweredError(
                f"it was not decided within {wish.wait_s:g} s; it stays asked for, and is carried "
                "out as soon as the runner comes to it"
            )
        await asyncio.sleep(LOOK_EVERY)
    if problem:
        raise LifecycleError(problem)
