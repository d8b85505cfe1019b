"""What is asked of lifecycles over HTTP, carried out in the runner's own process.

The rules and words are those of the commands. There must be no second store on the database in this
process: closing one takes the file locks of all others with it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError
from lifecycle.machine.states import Completed
from lifecycle.mask_values import masked
from lifecycle.plan import Agent
from lifecycle.store.rows.audit import action_of
from orchestrator.control.commands import (
    RUNS_ALL,
    left_behind,
    not_together,
    require_sense,
    settled_after,
    ticked_by,
    took_effect,
)
from orchestrator.control.outcomes import CommandEffect, outcome_of
from orchestrator.control.requests import LOOK_EVERY, UnansweredError
from orchestrator.runner.add_task import add_recorded
from orchestrator.runner.preflight import exempted
from orchestrator.terminal import exits
from orchestrator.web.edge.problems import Problem, refused, unknown

if TYPE_CHECKING:
    from lifecycle.machine.events import PersonEvent
    from lifecycle.record import AgentLifecycle
    from orchestrator.control.commands import OperatorCommand
    from orchestrator.control.outcomes import OperatorOutcome
    from orchestrator.runner.add_task import Addition
    from orchestrator.runner.server_interface import RunnerPort


async def found(runner: RunnerPort, agent_id: str) -> AgentLifecycle:
    """Return a lifecycle, or say that there is none."""
    record = await runner.store.get(agent_id)
    if record is None:
        raise unknown(f"there is no lifecycle {agent_id!r}", "GET /api/v1/lifecycles lists all")
    return record


async def steer(runner: RunnerPort, command: OperatorCommand) -> OperatorOutcome:
    """Ask, wait for what follows, and put it into words; a Problem tells a refusal."""
    event = command.event(runner.now())
    try:
        before = await found(runner, command.agent_id)
        require_sense(command, before)
    except Problem as problem:
        await _note_refusal(runner, command.agent_id, event, problem.text)
        raise
    except LifecycleError as refusal:
        await _note_refusal(runner, command.agent_id, event, str(refusal))
        raise refused(str(refusal)) from refusal
    try:
        await _send(runner, command, event)
        record = await settled_after(runner.store, command, event)
        changed = await took_effect(runner.store, command.agent_id, event)
        left = await left_behind(runner.store, command.agent_id) if changed else ""
        accepts = command.verb == "accept"
        apart = await not_together(runner.store, command.agent_id, event) if accepts else ""
        ticked = await ticked_by(runner.store, runner.repo, command, record, runner.settings())
        outcome = await outcome_of(
            CommandEffect(
                repo=runner.repo,
                verb=command.verb,
                before=before,
                record=record,
                changed=changed,
                who=RUNS_ALL[1],
                runs=True,
                left=left,
                apart=apart,
                now=command.now,
                ticked=ticked,
            )
        )
    except UnansweredError:
        raise
    except LifecycleError as refusal:
        raise await _moved(runner, command) or refused(str(refusal)) from refusal
    if isinstance(record.work, Completed) and record.work.merging:
        raise UnansweredError(outcome.text)
    if outcome.exit_code != exits.COMPLETE:
        raise refused(outcome.text, outcome.hint)
    return outcome


async def _moved(runner: RunnerPort, command: OperatorCommand) -> Problem | None:
    """Return that the work is at another commit than the one that was looked at, if it is."""
    record = await runner.store.get(command.agent_id)
    work = record.work if record is not None else None
    if not isinstance(work, Completed) or work.head.startswith(command.expect_head):
        return None
    return Problem(
        409,
        "moved",
        f"its work moved on while you looked: it is at {work.head} now, not at "
        f"{command.expect_head[:12]}; nothing was merged",
        "look at it again (GET .../diff), then accept with the new expect_head",
    )


async def add(runner: RunnerPort, addition: Addition) -> tuple[AgentLifecycle, list[str]]:
    """Add a lifecycle and start it; also returns warnings of budgets that cannot limit it."""
    settings, engine = runner.settings(), runner.engine
    async with runner.adding:
        record = await add_recorded(
            runner.store,
            runner.audit,
            runner.repo,
            addition,
            settings,
            noted=engine.noted,
            provider=engine.shared.ci,
        )
    warnings = list(exempted(Agent.model_validate(record.facts["agent"]), settings))
    for text in warnings:
        runner.report("budget_unheld", agent_id=record.agent_id, reason=text)
    return record, warnings


async def _note_refusal(runner: RunnerPort, agent_id: str, event: PersonEvent, reason: str) -> None:
    """Record and log a request that is refused before any lifecycle could know of it."""
    await runner.audit.record(action_of(event), event.by, agent_id, "refused", reason)
    runner.engine.shared.refused(agent_id, event, reason)


async def _send(runner: RunnerPort, command: OperatorCommand, event: PersonEvent) -> None:
    """Leave the request for the runner, and wait until it is decided."""
    clock = asyncio.get_running_loop().time
    end = clock() + command.wait_s
    event = masked(event, runner.engine.shared.masker)
    request = await runner.store.ask(command.agent_id, event)
    runner.engine.inbox.hurry()
    while (problem := await runner.store.request_outcome(request)) is None:
        if clock() > end:
            raise UnansweredError(
                f"it was not decided within {command.wait_s:g} s; the request stays, and is "
                "carried out as soon as the runner gets to it"
            )
        await asyncio.sleep(LOOK_EVERY)
    if problem:
        raise LifecycleError(problem)
