"""Starts the process of one attempt: which program, with what to read, in which box.

What it starts is attended by whoever asked. It decides nothing: that a start failed, and whose
fault that is, comes back as a fact.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING

from communication.errors import MailboxError
from lifecycle.attend import Attendance
from lifecycle.confine import Seen
from lifecycle.errors import PlanError, StateGoneError
from lifecycle.handout import keep, readable, snapshot_for, texts_for, write_config
from lifecycle.housing import begin, look_once, mailbox_of, whole
from lifecycle.machine import events as on
from lifecycle.machine.events import Fault
from lifecycle.machine.states import Process, Spawning
from lifecycle.masking import refuse_markers, with_secrets
from lifecycle.monitor import Caps, Monitor
from lifecycle.prices import price_of
from lifecycle.programs import Program, launch, own_programs, program_of, ways_to_signal
from lifecycle.shortfall import fault_of, text_of
from runtime.errors import RuntimeFault, SpawnError
from runtime.output import size
from runtime.process import SpawnOrder
from templates.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from communication.mailbox import Mailbox
    from lifecycle.case import Case
    from lifecycle.machine import effects as do
    from lifecycle.machine.events import Event
    from lifecycle.machine.money import Spent
    from lifecycle.parts import Parts
    from lifecycle.setting_up.front import SettingUp
    from lifecycle.settings import Settings
    from runtime.workspace import Workspace


class Starter:
    """Starts the agents of one repository."""

    def __init__(self, parts: Parts, setting_up: SettingUp) -> None:
        self._parts = parts
        self._setting_up = setting_up

    async def start(
        self,
        case: Case,
        effect_id: str,
        spawn: do.SpawnAgent,
        tell: Callable[[Event], None],
        afford: Callable[[Spent], str],
    ) -> tuple[Event, Attendance | None]:
        """Start the agent; says what came of it, and who attends the process from now on."""
        parts, attempt = self._parts, spawn.attempt
        if gone := parts.gone():
            # Nobody would find it again, and another runner may be at the same work.
            return self._unspawned(attempt, StateGoneError(gone), Fault.ENVIRONMENT), None
        try:
            program = program_of(case.agent, _chosen(case))
            workspace = await whole(self._parts, case)
            case.merges = await begin(parts, case, workspace, spawn.merge)
            await look_once(parts, case, workspace)
            await self._setting_up.workspace(case, effect_id, attempt, workspace, case.head.sha)
            mailbox = mailbox_of(self._parts, case, workspace)
            if parts.comm_file is None:
                mailbox.clear(case.agent_id)
            else:
                # Others write to a shared file; waiting for its lock must not hold up the loops.
                await asyncio.to_thread(mailbox.clear, case.agent_id)
            settings = parts.settings()
            _refuse_markers(case, settings)
            snapshot = snapshot_for(parts, case, mailbox, attempt, settings)
            ways = ways_to_signal(program, settings, parts.around)
            texts = texts_for(parts, case, mailbox, snapshot, effect_id, ways)
            with readable(texts.prompt, parts.paths.prompt(case.agent_id, attempt)) as stdin:
                order = await self._order(case, workspace, mailbox, effect_id, stdin, program)
                log_start = size(order.log)
                monitor = Monitor(
                    program.adapter,
                    order.log,
                    log_start,
                    parts.clock.now,
                    Caps(settings.max_events, settings.max_tool_calls),
                    program.model,
                    price_of(settings.prices, program.adapter.name, program.model),
                )
                process = await parts.terminals.spawn(order)
        except (SpawnError, PlanError) as error:
            return self._unspawned(attempt, error, fault_of(error, Fault.USER)), None
        except (RuntimeFault, TemplateError, MailboxError, OSError) as error:
            return self._unspawned(attempt, error, fault_of(error)), None
        attendance = Attendance(
            process=process,
            attempt=attempt,
            workspace=workspace,
            settings=settings,
            clock=parts.clock,
            tell=tell,
            monitor=monitor,
            afford=afford,
            report_fault=parts.report,
        )
        try:
            attendance.begin(
                parts.watcher.subscribe(
                    mailbox,
                    case.agent_id,
                    spawn_id=effect_id,
                    task_id=case.task.id,
                    on_reading=lambda reading: monitor.hold(partial(attendance.heard, reading)),
                )
            )
            parts.rounds.add(attendance)
        except BaseException:
            # Nobody would notice its end, nor hold it to any limit.
            attendance.close()
            await process.stop(0.0)
            raise
        keep(parts, case, snapshot, texts.prompt)
        identity = process.identity
        spawned = on.AgentSpawned(
            at=attendance.since,
            attempt=attempt,
            process=Process(
                pid=identity.pid,
                start_time=identity.start_time,
                boot_id=identity.boot_id,
                spawn_id=identity.mark,
            ),
            containment=process.order.contained,
            weaker=(*process.order.weaker, *process.weaker),
            log_start=log_start,
        )
        return spawned, attendance

    async def _order(  # noqa: PLR0913, PLR0917  # what was found out before, in this order
        self,
        case: Case,
        workspace: Workspace,
        mailbox: Mailbox,
        spawn_id: str,
        stdin: Path | int,
        program: Program,
    ) -> SpawnOrder:
        parts, settings, attempt = self._parts, self._parts.settings(), case.attempt
        summary = parts.paths.summary(case.agent_id, attempt)
        config = parts.paths.config(case.agent_id, attempt)
        identity = {
            "LOOPWRIGHT_AGENT_ID": case.agent_id,
            "LOOPWRIGHT_TASK_ID": case.task.id,
            "LOOPWRIGHT_ATTEMPT": str(attempt),
            "LOOPWRIGHT_SPAWN_ID": spawn_id,
            "LOOPWRIGHT_COMM_FILE": str(mailbox.path),
            "LOOPWRIGHT_SUMMARY_FILE": str(summary),
        }
        start = launch(
            program, case.agent, settings, parts.around, config=config, identity=identity
        )
        write_config(config, start.files, needed=settings.private_config)
        programs = own_programs(parts.paths.programs, parts.around.command)
        seen = Seen(
            workspace.path,
            start.argv,
            in_git=bool(workspace.branch),
            summary=summary,
            mailbox=mailbox.path,
            programs=programs,
            path=case.agent.env.get("PATH", ""),
            config=config if start.files or settings.private_config else None,
        )
        confined = await parts.confiner.around(settings, seen)
        who = await parts.confiner.identity() if program.adapter.hides_git_settings else {}
        return SpawnOrder(
            agent_id=case.agent_id,
            attempt=attempt,
            spawn_id=spawn_id,
            command=start.argv,
            cwd=workspace.path,
            stdin=stdin,
            log=parts.paths.log(case.agent_id, attempt),
            env={
                **confined.env,
                **who,
                **start.env,
                **with_secrets(case.agent, settings.pass_env),
                **parts.ports.env_of(case.agent_id),
                **identity,
                # Where the workspace's own .git is gone, git must not find the user's.
                "GIT_CEILING_DIRECTORIES": os.path.dirname(workspace.path),  # noqa: PTH120  # as text
            },
            log_cap=settings.log_cap_bytes,
            inherit=(*settings.pass_env, *start.passes),
            last_on_path=str(programs or ""),
            forbids=start.forbids,
            limits=confined.limits,
            box=confined.box,
            allow_weaker=settings.allow_weaker,
            contained=confined.text,
            weaker=confined.weaker,
        )

    def _unspawned(self, attempt: int, error: Exception, fault: Fault) -> Event:
        return on.SpawnFailed(
            at=self._parts.clock.now(), attempt=attempt, text=text_of(error), fault=fault
        )


def _refuse_markers(case: Case, settings: Settings) -> None:
    """Spend no attempt where its program, or the gates after it, could not be run as meant."""
    agent = case.agent
    refuse_markers(f"the command of {agent.agent_id}", (*agent.command, *agent.args))
    refuse_markers(f"a verify command of {case.task.id}", settings.verify_of(case.task))


def _chosen(case: Case) -> str:
    """Return which program of the chain the attempt was given to."""
    work = case.record.work
    return work.tally.program if isinstance(work, Spawning) else ""
