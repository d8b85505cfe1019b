"""Agent processes: starting them, knowing which are live, ending them with all they started.

It owns every process it starts until nothing of it is left. It must not know why a process runs
or ends: limits, retries and breakpoints are decided elsewhere, on the facts reported here.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from runtime import activity, containment, environment, launch, output, proctable
from runtime.child import AgentProcess, ProcessExit, StopReport, orphans_in, started_by
from runtime.containment import ProcessIdentity
from runtime.errors import SpawnError
from runtime.launch import SpawnOrder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = [
    "AgentProcess",
    "ProcessExit",
    "ProcessIdentity",
    "SpawnOrder",
    "StopReport",
    "TerminalManager",
]

_DEFAULT_GRACE = 10.0


class TerminalManager:
    """Starts processes, each in its own session, and knows all that are live.

    With `subreaper` (Linux) the orphans of everything this process starts become its children, so
    that no daemon of an agent escapes. Elsewhere process groups are all there is, and a daemon
    that leaves its group is not found. An orphan is ended only when it is proved to come from an
    agent, by lineage, session, mark or descent: other children of this process are left alone.
    All calls belong on one event loop's thread.
    """

    def __init__(
        self,
        repo: Path,
        *,
        subreaper: bool = True,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.repo = repo
        self.subreaper = subreaper and containment.become_subreaper()
        self._environ = dict(os.environ if environ is None else environ)
        self._inherited = environment.allowed(self._environ)

    def environment(self, order: SpawnOrder) -> dict[str, str]:
        """Build the environment of a child; its mark comes last and cannot be overridden."""
        named = {name: self._environ[name] for name in order.inherit if name in self._environ}
        mark = {proctable.MARK_VARIABLE: order.spawn_id}
        return {**self._inherited, **named, **order.env, **mark}

    async def spawn(self, order: SpawnOrder) -> AgentProcess:
        """Start a process with its own session, prompt and log; SpawnError says why it cannot."""
        started = launch.start(order, self.environment(order))
        process = AgentProcess(order, started, self, adopts_orphans=self.subreaper)
        try:
            process.watch()
        except RuntimeError as error:
            started.popen.kill()
            started.popen.wait()
            process.forget()
            raise SpawnError(
                f"{order.command[0]} was started but its end could not be noticed, so it was "
                f"killed: {error}. Raise the limit on threads or processes."
            ) from error
        return process

    def live(self) -> tuple[AgentProcess, ...]:
        """List the processes of this manager of which something may be left."""
        return started_by(self)

    async def stop_identity(self, identity: ProcessIdentity, grace: float) -> StopReport:
        """End what is left of a process of an earlier runner; when in doubt signal nothing."""
        killed: set[tuple[int, int]] = set()
        survivors = await containment.end(containment.Remnant(identity).find, grace, killed)
        return StopReport(None, bool(killed), len(killed), survivors)

    def find_marked(self, mark: str) -> tuple[ProcessIdentity, ...]:
        """Find the living processes started under this spawn id, by whichever runner."""
        return containment.find_marked(mark)

    def find_all_marked(self) -> tuple[ProcessIdentity, ...]:
        """Find the living processes of any attempt, of this runner, another, or an earlier one."""
        return containment.find_marked()

    def sample(self) -> dict[str, activity.Activity]:
        """Measure all live processes in one pass, by spawn id; cut logs that outgrow their cap."""
        table = proctable.read_table()
        orphans = orphans_in(table, None, adopted=self.subreaper)
        measured = {}
        for process in self.live():
            order = process.order
            output.trim(order.log, order.log_cap)
            members = process.family(table, orphans.get(process, ()))
            measured[order.spawn_id] = activity.measure(order.log, members.values())
        return measured

    async def aclose(self, grace: float = _DEFAULT_GRACE) -> None:
        """Stop everything that is live, all at once."""
        await asyncio.gather(*(process.stop(grace) for process in self.live()))
