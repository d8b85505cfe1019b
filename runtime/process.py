"""The front of `processes`: starts agents, knows which are live, ends all that they started.

Owns every process it starts until nothing of it is left. It must not know why a process runs or
ends: limits, retries and breakpoints are decided elsewhere, from the facts reported here.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from runtime import environment, proc_table
from runtime.code_origin.working_trees import Trees
from runtime.logs import files
from runtime.machine_id import this_machine
from runtime.masking.masker import Masker
from runtime.processes import activity, launch, leftovers, orphans, termination
from runtime.processes.child import AgentProcess, ProcessExit, StopReport
from runtime.processes.launch import SpawnOrder
from runtime.processes.termination import ProcessIdentity
from runtime.processes.watchdog import client as watchdog

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from runtime.processes.cgroups.probe import Capabilities

__all__ = [
    "AgentProcess",
    "ProcessExit",
    "ProcessIdentity",
    "SpawnOrder",
    "StopReport",
    "TerminalManager",
]

_DEFAULT_GRACE = 10.0
_OURS = frozenset({
    "LOOPWRIGHT_AGENT_ID", "LOOPWRIGHT_TASK_ID", "LOOPWRIGHT_ATTEMPT", "LOOPWRIGHT_SPAWN_ID",
    "LOOPWRIGHT_COMM_FILE", "LOOPWRIGHT_SUMMARY_FILE", "LOOPWRIGHT_REMARKS",
    "LOOPWRIGHT_REVIEW",
    "LOOPWRIGHT_MACHINE_ID", "GIT_CEILING_DIRECTORIES",
})  # fmt: skip
"""Variables that are new for each process, and hold no secret."""


class TerminalManager:
    """Starts processes, each in its own session, and knows all that are live.

    With `subreaper` (Linux) the orphans of everything this process starts become its children, so
    that no daemon of an agent escapes. On other systems there are only process groups, and a daemon
    that leaves its group is not found. An orphan is ended only when it is proved to come from an
    agent, by lineage, session, mark or descent: other children of this process are left alone.
    Once this process is gone, the watchdog ends what it started.
    `able` is what limits can be enforced; if None, it is probed when needed.
    `masker` redacts the logs of orders without a masker of their own, and learns their variables.
    All calls must be made on one event loop's thread.
    """

    def __init__(  # noqa: PLR0913  # all by name
        self,
        repo: Path | str,
        *,
        subreaper: bool = True,
        environ: Mapping[str, str] | None = None,
        able: Capabilities | None = None,
        masker: Masker | None = None,
        machine: str | None = None,
    ) -> None:
        self.repo = repo = Path(repo)
        self.machine = this_machine() if machine is None else machine
        """The name of the machine that its processes belong to."""
        proc_table.keep_spare()
        self.subreaper = subreaper and termination.become_subreaper()
        watchdog.begin()
        self.masker = Masker() if masker is None else masker
        self._able = able
        self._environ = dict(os.environ if environ is None else environ)
        self._trees = Trees(Trees.of(repo).users)
        self._whole_path = self._environ.get("PATH", "")
        inherited = environment.cleared(environment.allowed(self._environ), self._trees)
        self._inherited = inherited.env
        self.withheld = inherited.withheld
        """What no child inherits of the runner's environment, by variable, because it leads into
        the user's working tree."""
        self.masker.learn_from(self._inherited)
        self._looked_at = dict(self._inherited)
        """Variables that were already checked for secrets, with their last values."""
        self._processes: list[AgentProcess] = []
        self._recovering: dict[str, asyncio.Lock] = {}
        self._recovered: set[str] = set()
        """Marks of which nothing is left; they are never used again."""

    def environment(self, order: SpawnOrder) -> dict[str, str]:
        """Build the environment of a child; its mark comes last and cannot be overridden."""
        named = {name: self._environ[name] for name in order.inherit if name in self._environ}
        mark = {
            proc_table.MARK_VARIABLE: order.spawn_id,
            proc_table.MACHINE_VARIABLE: self.machine,
        }
        if named:
            named = environment.cleared(named, self._trees).env
        inherited = {**self._inherited, **named}
        for name in order.forbids:
            inherited.pop(name, None)
        env = {**inherited, **order.env}
        if order.last_on_path:
            env["PATH"] = os.pathsep.join(filter(None, (env.get("PATH"), order.last_on_path)))
        return {**env, **environment.at_home_in(order.cwd, env, order.made), **mark}

    def command_environment(self, folder: Path, made: Collection[str]) -> dict[str, str]:
        """Build the environment of a shell command in a folder, to find out what it would run."""
        return {**self._inherited, **environment.at_home_in(folder, self._inherited, made)}

    async def spawn(self, order: SpawnOrder) -> AgentProcess:
        """Start a process with its own session, prompt and log; SpawnError says why not."""
        env = self.environment(order)
        if order.masker is None:
            self._learn(env)
            if self.masker:
                order = replace(order, masker=self.masker)
        order = self._as_a_person_finds_it(order, env)
        started = await launch.start(order, env, self._able)
        process = AgentProcess(order, started, adopts_orphans=self.subreaper)
        process.watch()
        self._processes = [*self.live(), process]  # drops those that are over
        return process

    def _as_a_person_finds_it(self, order: SpawnOrder, env: Mapping[str, str]) -> SpawnOrder:
        """Look the program itself up on the PATH of the runner, not in the child's folder."""
        path = order.env.get("PATH", self._whole_path)
        in_image = order.sandbox is not None and not order.sandbox.engine.shows_system
        if env.get("PATH") == path or in_image or not order.command or "/" in order.command[0]:
            return order
        found = shutil.which(order.command[0], path=path) or ""
        if not found.startswith("/"):
            return order
        return replace(order, command=(found, *order.command[1:]))

    def _learn(self, env: Mapping[str, str]) -> None:
        known = self._looked_at
        fresh = {
            name: value
            for name, value in env.items()
            if known.get(name) != value and name not in _OURS
        }
        if fresh:
            known.update(fresh)
            self.masker.learn_from(fresh)

    def live(self) -> tuple[AgentProcess, ...]:
        """List the processes of this manager that may not be gone completely."""
        self._processes = [each for each in self._processes if orphans.is_enrolled(each.tree)]
        return tuple(self._processes)

    async def stop_identity(self, identity: ProcessIdentity, grace: float) -> StopReport:
        """End what is left of a process of an earlier runner; in doubt signal nothing."""
        # One tree has many identities: the first call ends all of it.
        async with self._recovering.setdefault(identity.mark, asyncio.Lock()):
            if identity.mark in self._recovered and not leftovers.is_alive(identity):
                return StopReport(None, forced=False, killed=0, survivors=())
            killed: set[tuple[int, int]] = set()
            remnant = leftovers.Remnant(identity)
            survivors = await termination.end(remnant, grace, killed)
            if not survivors:
                remnant.close()
                self._recovered.add(identity.mark)
        return StopReport(None, bool(killed), len(killed), survivors)

    def find_marked(self, mark: str) -> tuple[ProcessIdentity, ...]:
        """Find the living processes started under this spawn id, by any runner."""
        return leftovers.find_marked(mark)

    def find_all_marked(self) -> tuple[ProcessIdentity, ...]:
        """Find the living processes of any attempt, of any runner, also earlier ones."""
        return leftovers.find_marked()

    def sample(self) -> dict[str, activity.Activity]:
        """Measure all live processes in one pass, by spawn id; trim logs that exceed their cap."""
        table = proc_table.read_table()
        adopted = orphans.orphans_in(table, None, adopted=self.subreaper)
        measured = {}
        for process in self.live():
            order = process.order
            files.trim(order.log, order.log_cap)
            members = process.tree.family(table, adopted.get(process.tree, ()))
            measured[order.spawn_id] = process.measured(members.values())
        return measured

    async def aclose(self, grace: float = _DEFAULT_GRACE) -> None:
        """Stop everything that is live, all at once."""
        await asyncio.gather(*(process.stop(grace) for process in self.live()))
