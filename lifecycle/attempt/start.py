"""Starts the process of one attempt: which program, with what to read, in which sandbox.

The caller watches what it starts. It decides nothing: that a start failed, and whose
fault that is, comes back as a fact.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING

from communication.errors import MailboxError
from communication.signal import REMARKS
from lifecycle.attempt.handout import save_for_people, snapshot_for, texts_for
from lifecycle.attempt.output_monitor import Caps, Monitor
from lifecycle.attempt.trace_ids import TRACEPARENT, traceparent
from lifecycle.attempt.watch import AttemptWatch, process_of
from lifecycle.context.files import readable, write_config
from lifecycle.context.snapshot import Ways
from lifecycle.errors import PlanError, StateGoneError
from lifecycle.launch.programs import (
    SERVER,
    TOOL,
    Program,
    launch,
    offers_tools,
    own_programs,
    program_of,
)
from lifecycle.launch.sandbox import SandboxRequest
from lifecycle.machine import events as on
from lifecycle.machine.budget import price_of
from lifecycle.machine.events import Fault
from lifecycle.machine.states import Spawning
from lifecycle.mask_values import refuse_markers, with_secrets
from lifecycle.setup.agent_workspace import begin, look_once, mailbox_of, whole
from lifecycle.shortage_retry import fault_of, text_of
from runtime.errors import RuntimeFault, SpawnError
from runtime.logs.files import size
from runtime.process import SpawnOrder
from templates.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from communication.mailbox import Mailbox
    from lifecycle.attempt.sampling import AttemptSampler
    from lifecycle.launch.programs import HostEnvironment
    from lifecycle.machine import effects as do
    from lifecycle.machine.budget import Spent
    from lifecycle.machine.events import Event
    from lifecycle.services import MachineServices
    from lifecycle.settings import Settings
    from lifecycle.setup.setup import SettingUp
    from lifecycle.working_copy import LocalCopy
    from runtime.workspace import Workspace


class Starter:
    """Starts the agents of one repository."""

    def __init__(
        self, machine: MachineServices, setting_up: SettingUp, sampler: AttemptSampler
    ) -> None:
        self._machine, self._shared = machine, machine.shared
        self._setting_up = setting_up
        self._sampler = sampler

    async def start(
        self,
        local: LocalCopy,
        effect_id: str,
        spawn: do.SpawnAgent,
        emit: Callable[[Event], None],
        afford: Callable[[Spent], str],
    ) -> tuple[Event, AttemptWatch | None]:
        """Start the agent; return the resulting fact, and the watch on the process."""
        machine, attempt = self._machine, spawn.attempt
        if gone := machine.shared.gone():
            # Nobody would find it again, and another runner may be at the same work.
            why = StateGoneError(gone)
            return self._unspawned(attempt, effect_id, why, Fault.ENVIRONMENT), None
        try:
            program = program_of(local.agent, _chosen(local))
            workspace = await whole(self._machine, local)
            local.merges = await begin(machine, local, workspace, spawn.merge)
            await look_once(machine, local, workspace)
            await self._setting_up.workspace(local, effect_id, attempt, workspace, local.head.sha)
            mailbox = mailbox_of(self._machine, local, workspace)
            if machine.comm_file is None:
                mailbox.clear(local.agent_id)
            else:
                # Others write to a shared file; waiting for its lock must not hold up the loops.
                await asyncio.to_thread(mailbox.clear, local.agent_id)
            settings = machine.shared.settings()
            _refuse_markers(local, settings)
            snapshot = snapshot_for(machine, local, mailbox, attempt, settings)
            ways = _ways_to_signal(program, settings, machine.host)
            texts = texts_for(machine, local, mailbox, snapshot, effect_id, ways)
            with readable(texts.prompt, machine.paths.prompt(local.agent_id, attempt)) as stdin:
                remarks = tuple(each.id for each in snapshot.remarks if each.id)
                order = await self._order(
                    local, workspace, mailbox, effect_id, stdin, program, remarks
                )
                log_start = size(order.log)
                monitor = Monitor(
                    program.adapter,
                    order.log,
                    log_start,
                    machine.shared.clock.now,
                    Caps(settings.max_events, settings.max_tool_calls),
                    program.model,
                    price_of(settings.prices, program.adapter.name, program.model),
                )
                process = await machine.terminals.spawn(order)
        except (SpawnError, PlanError) as error:
            return self._unspawned(attempt, effect_id, error, fault_of(error, Fault.USER)), None
        except (RuntimeFault, TemplateError, MailboxError, OSError) as error:
            return self._unspawned(attempt, effect_id, error, fault_of(error)), None
        watch = AttemptWatch(
            process=process,
            attempt=attempt,
            workspace=workspace,
            settings=settings,
            clock=machine.shared.clock,
            emit=emit,
            monitor=monitor,
            afford=afford,
            report_fault=machine.shared.report,
        )
        try:
            watch.begin(
                machine.watcher.subscribe(
                    mailbox,
                    local.agent_id,
                    spawn_id=effect_id,
                    task_id=local.task.id,
                    on_reading=lambda reading: monitor.defer_signal(partial(watch.heard, reading)),
                )
            )
            self._sampler.add(watch)
        except BaseException:
            # Nobody would notice its end, nor hold it to any limit.
            watch.close()
            await process.stop(0.0)
            raise
        save_for_people(machine, local, snapshot, texts.prompt)
        spawned = on.AgentSpawned(
            at=watch.since,
            attempt=attempt,
            process=process_of(process.identity),
            containment=process.order.contained,
            weaker=(*process.order.weaker, *process.weaker),
            log_start=log_start,
        )
        return spawned, watch

    async def _order(  # noqa: PLR0913, PLR0917  # what was found out before, in this order
        self,
        local: LocalCopy,
        workspace: Workspace,
        mailbox: Mailbox,
        spawn_id: str,
        stdin: Path | int,
        program: Program,
        remarks: tuple[str, ...],
    ) -> SpawnOrder:
        machine, settings, attempt = self._machine, self._shared.settings(), local.attempt
        summary = machine.paths.summary(local.agent_id, attempt)
        config = machine.paths.config(local.agent_id, attempt)
        identity = {
            "LOOPWRIGHT_AGENT_ID": local.agent_id,
            "LOOPWRIGHT_TASK_ID": local.task.id,
            "LOOPWRIGHT_ATTEMPT": str(attempt),
            "LOOPWRIGHT_SPAWN_ID": spawn_id,
            "LOOPWRIGHT_COMM_FILE": str(mailbox.path),
            "LOOPWRIGHT_SUMMARY_FILE": str(summary),
            **({REMARKS: " ".join(remarks)} if remarks else {}),
            **({TRACEPARENT: traceparent(local.record, spawn_id)} if settings.telemetry else {}),
        }
        start = launch(
            program, local.agent, settings, machine.host, config=config, identity=identity
        )
        write_config(config, start.files, needed=settings.private_config)
        programs = own_programs(machine.paths.programs, machine.host.command)
        request = SandboxRequest(
            workspace.path,
            start.argv,
            in_git=bool(workspace.branch),
            summary=summary,
            mailbox=mailbox.path,
            programs=programs,
            path=local.agent.env.get("PATH", ""),
            config=config if start.files or settings.private_config else None,
        )
        plan = await machine.sandbox.plan(settings, request)
        who = await machine.sandbox.identity() if program.adapter.hides_git_settings else {}
        return SpawnOrder(
            agent_id=local.agent_id,
            attempt=attempt,
            spawn_id=spawn_id,
            command=start.argv,
            cwd=workspace.path,
            stdin=stdin,
            log=machine.paths.log(local.agent_id, attempt),
            env={
                **plan.env,
                **who,
                **start.env,
                **with_secrets(local.agent, settings.pass_env),
                **machine.ports.env_of(local.agent_id),
                **identity,
                # Where the workspace's own .git is gone, git must not find the user's.
                "GIT_CEILING_DIRECTORIES": os.path.dirname(workspace.path),  # noqa: PTH120  # as text
            },
            log_cap=settings.log_cap_bytes,
            inherit=(*settings.pass_env, *start.passes),
            last_on_path=str(programs or ""),
            forbids=start.forbids,
            limits=plan.limits,
            sandbox=plan.sandbox,
            allow_weaker=settings.allow_weaker,
            contained=plan.text,
            weaker=plan.weaker,
        )

    def _unspawned(self, attempt: int, spawn_id: str, error: Exception, fault: Fault) -> Event:
        now = self._shared.clock.now()
        return on.SpawnFailed(
            at=now, attempt=attempt, spawn_id=spawn_id, text=text_of(error), fault=fault
        )


def _refuse_markers(local: LocalCopy, settings: Settings) -> None:
    """Spend no attempt where its program, or the gates after it, could not be run as meant."""
    agent = local.agent
    refuse_markers(f"the command of {agent.agent_id}", (*agent.command, *agent.every_arg))
    refuse_markers(f"a verify command of {local.task.id}", settings.verify_of(local.task))


def _chosen(local: LocalCopy) -> str:
    """Return which program of the chain the attempt was given to."""
    work = local.record.work
    return work.tally.program if isinstance(work, Spawning) else ""


def _ways_to_signal(program: Program, settings: Settings, host: HostEnvironment) -> Ways:
    """Return how an agent can signal beside the file."""
    form = program.adapter.mcp
    has_tools = form is not None and offers_tools(settings, host)
    tool = form.tool_name(SERVER, TOOL) if form is not None and has_tools else ""
    return Ways(tool, host.command)
