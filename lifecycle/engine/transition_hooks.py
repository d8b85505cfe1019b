"""Runs the commands that the settings name for each transition, beside the loops.

Owns their order, number and time. Must not run one before the transition is committed, keep a loop
waiting, or change anything by how one ends: a failure is reported.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from secrets import token_hex
from typing import TYPE_CHECKING

from lifecycle.machine.states import attempt_of
from runtime.errors import RuntimeFault
from runtime.temp_folders import scratch

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.reporting import Committed
    from lifecycle.services import SharedServices
    from runtime.commands import CommandRunner

TIMEOUT = 30.0
"""Seconds that one command may take."""
AT_ONCE = 4
"""Commands at once; of one lifecycle only one."""
MOST_WAITING = 1000
"""Transitions that may wait to be told; of more it is reported that they are not."""
PATIENCE = 10.0
"""Seconds that a runner which ends waits for what is still to be told."""
_REASON = 4000
_SAID = 300


class TransitionHooks:
    """Tells the commands of each transition: once, and those of one lifecycle in their order."""

    def __init__(self, shared: SharedServices, commands: CommandRunner, folder: Path) -> None:
        self._shared, self._commands, self._folder = shared, commands, folder
        self._waiting: dict[str, deque[str]] = {}
        """What is to be told, by lifecycle."""
        self._telling: dict[str, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._mark, self._number = f"hook-{token_hex(8)}", 0
        shared.observers.append(self._news)

    async def aclose(self) -> None:
        """Tell what is left, for a short time; end the rest. Nothing is left running."""
        left = tuple(self._telling.values())
        if left:
            await asyncio.wait(left, timeout=PATIENCE)
        untold = {agent_id: len(lines) for agent_id, lines in self._waiting.items() if lines}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for agent_id, number in untold.items():
            self._failed(agent_id, f"the runner ended before {number} transitions could be told")

    def _news(self, news: Committed) -> None:
        if news.before == news.after or not self._shared.settings().on_transition:
            return
        if sum(map(len, self._waiting.values())) >= MOST_WAITING:
            self._failed(news.agent_id, f"{MOST_WAITING} wait already; this one is not told")
            return
        self._waiting.setdefault(news.agent_id, deque()).append(_line(news))
        if news.agent_id not in self._telling:
            task = asyncio.get_running_loop().create_task(
                self._tell(news.agent_id), name=f"transitions of {news.agent_id}"
            )
            self._telling[news.agent_id] = task

    async def _tell(self, agent_id: str) -> None:
        lines = self._waiting[agent_id]
        try:
            while lines:
                line = lines.popleft()
                for command in self._shared.settings().on_transition:
                    async with self._places:
                        await self._run(agent_id, command, line)
        finally:
            del self._waiting[agent_id], self._telling[agent_id]

    async def _run(self, agent_id: str, command: str, line: str) -> None:
        self._number += 1
        try:
            with scratch("transition") as folder:
                told, log = folder / "transition.json", folder / "log"
                told.write_text(line)
                result = await self._commands.run(
                    command,
                    cwd=self._folder,
                    log=log,
                    timeout=TIMEOUT,
                    mark=f"{self._mark}-{self._number}",
                    stdin=told,
                )
        except (RuntimeFault, OSError) as problem:
            self._failed(agent_id, str(problem), command)
            return
        if not result.ok:
            end = f"ended with {result.code}"
            if result.timed_out:
                end = f"was ended after {TIMEOUT:g} s"
            elif result.code is None:
                end = f"was ended by signal {result.signal}"
            self._failed(agent_id, f"{end}. {result.excerpt[-_SAID:]}".strip(), command)

    def _failed(self, agent_id: str, reason: str, command: str = "") -> None:
        fields = {"command": command} if command else {}
        self._shared.report("transition_hook_failed", agent_id=agent_id, **fields, reason=reason)


def _line(news: Committed) -> str:
    record, work = news.record, news.record.work
    told = {
        "agent_id": news.agent_id,
        "task_id": record.task_id,
        "attempt": attempt_of(work) if work is not None else 0,
        "before": news.before,
        "after": news.after,
        "event": news.event,
        "reason": (record.error or "")[:_REASON],
        "at": news.at,
    }
    return json.dumps(told) + "\n"
