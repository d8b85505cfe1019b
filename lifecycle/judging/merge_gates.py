"""Judges the result of a merge before the base moves, and names the commits that it conflicts with.

Judged by the repository's verify commands and the merged task's own; those of other tasks are not
run again. It moves no branch.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lifecycle.errors import PlanError
from lifecycle.machine import events as on
from lifecycle.machine.states import Accepted, AgentState, Completed
from lifecycle.record import Filter
from lifecycle.shortage_retry import text_of
from runtime.errors import ShortageError
from runtime.shortage import shortage_of

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from lifecycle.judging.gates import GateRunner
    from lifecycle.machine.states import Gate
    from lifecycle.services import MachineServices
    from lifecycle.working_copy import LocalCopy
    from runtime.branches import PreparedMerge

NOT_RUN = "the verify commands could not be run on the merged result: {error}"
NAMED = 20
"""Commits of the base that are named at most."""


class MergeGates:
    """The gates of merges."""

    def __init__(self, machine: MachineServices, gates: GateRunner) -> None:
        self._machine, self._shared = machine, machine.shared
        self._gates = gates
        self._judging: set[asyncio.Task[tuple[Gate, ...]]] = set()
        self._ends = False

    async def objection(
        self, local: LocalCopy, effect_id: str, prepared: PreparedMerge
    ) -> on.MergeFailed | None:
        """Judge the merged result, as far as that very tree was not judged; None if green."""
        commands = await self._unjudged(local, prepared)
        if not commands:
            return None
        try:
            gates = await self._cancellable(
                self._gates.on_commit(
                    local,
                    effect_id,
                    prepared.commit,
                    commands,
                    attempt=local.attempt,
                    label="merge",
                )
            )
        except (PlanError, OSError) as error:
            if shortage_of(error):
                raise ShortageError(text_of(error)) from error
            return on.MergeFailed(at=self._now(), text=NOT_RUN.format(error=error))
        red = [gate for gate in gates if not gate.ok]
        if not red:
            return None
        between = await self._between(prepared)
        how = "; ".join(f"`{gate.command}` {gate.end}" for gate in red)
        text = f"{prepared.branch} merged into {prepared.into} is red: {how}"
        if between:
            text = f"{text}. It does not work together with {', '.join(between[:5])}"
        return on.MergeFailed(
            at=self._now(), text=text, gates=gates, between=between, commit=prepared.commit
        )

    async def _cancellable(
        self, judging: Coroutine[Any, Any, tuple[Gate, ...]]
    ) -> tuple[Gate, ...]:
        """Let a shutdown end the judging, and nothing else of a merge: that is soon done."""
        if self._ends:
            judging.close()
            raise asyncio.CancelledError
        task = asyncio.get_running_loop().create_task(judging)
        self._judging.add(task)
        task.add_done_callback(self._judging.discard)
        try:
            return await task
        finally:
            task.cancel()

    def break_off(self) -> None:
        """End what is being judged, and judge nothing more: orders stay for the next runner."""
        self._ends = True
        for task in self._judging:
            task.cancel()

    async def _unjudged(self, local: LocalCopy, prepared: PreparedMerge) -> tuple[str, ...]:
        """Return the repository's and the task's own commands that these files did not pass yet."""
        settings, work = self._shared.settings(), local.record.work
        wanted = dict.fromkeys((*settings.verify, *settings.verify_of(local.task)))
        passed = work.passed if isinstance(work, Completed) else ()
        if passed and wanted:
            tree_of = self._machine.branches.history.tree_of
            if await tree_of(prepared.commit) != await tree_of(prepared.source):
                passed = ()
        return tuple(command for command in wanted if command not in passed)

    async def _between(self, prepared: PreparedMerge) -> tuple[str, ...]:
        """Name what came into the base since the work branched off, lifecycles by their agent."""
        new = await self._machine.branches.history.between(prepared.source, prepared.target, NAMED)
        agents = {}
        async for record in self._shared.store.every(Filter(states=(AgentState.ACCEPTED,))):
            if isinstance(record.work, Accepted):
                agents[record.work.commit] = record.agent_id
        return tuple(
            f"{agents[commit]} ({commit[:7]})" if commit in agents else f"{commit[:7]} {subject}"
            for commit, subject in new
        )

    def _now(self) -> float:
        return self._shared.clock.now()
