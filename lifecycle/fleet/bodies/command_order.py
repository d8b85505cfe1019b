"""The order to start a program once: its folder, prompt, context, log, limits and sandbox.

Also owns the names of an instance's files. It must not start the program.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifecycle.fleet.api.options import IsolationLevel
from runtime.isolation import probe, workspace_sandbox
from runtime.limits import NO_LIMITS, Limits
from runtime.process import SpawnOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lifecycle.fleet.api.instances import AgentInstance
    from lifecycle.fleet.api.options import AgentSpawnOptions, ResourceLimits
    from lifecycle.fleet.api.registry import AgentRequirements, CommandAgent
    from runtime.process import TerminalManager


CONTAINED = "a process tree of its own; it may do what its user may"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOrder:
    """One start of one program."""

    instance: AgentInstance
    runs: CommandAgent
    options: AgentSpawnOptions
    requirements: AgentRequirements
    values: Mapping[str, Any]
    """The context of the spawn request."""
    life: int
    """The number of this start of the instance, from 1."""
    folder: Path
    """The instance's own folder, created when it is needed."""
    opened: workspace_sandbox.OpenedPaths | None = None
    """Paths that a sandbox opens beyond the usual ones."""

    @property
    def mark(self) -> str:
        """The mark of its processes, by which every runner recognizes them."""
        return f"{mark_prefix(self.folder.parent)}{self.instance.instance_id}.{self.life}"

    async def prepare(self, terminals: TerminalManager) -> SpawnOrder:
        """Write the files that the program reads, and return the order to start it.

        IsolationUnavailableError says what this machine lacks for its level.
        """
        cwd, context = self._cwd(), None
        env = {
            **self.runs.env,
            "LOOPWRIGHT_AGENT_ID": self.instance.name or str(self.instance.instance_id),
            "LOOPWRIGHT_INSTANCE_ID": str(self.instance.instance_id),
            "LOOPWRIGHT_ATTEMPT": str(self.life),
            "GIT_CEILING_DIRECTORIES": str(cwd.parent),
        }
        if self.values:
            context = self.create_folder() / "context.json"
            context.write_text(json.dumps(dict(self.values)), encoding="utf-8")
            env["LOOPWRIGHT_CONTEXT_FILE"] = str(context)
        order = SpawnOrder(
            agent_id=self.instance.name or str(self.instance.instance_id),
            attempt=self.life,
            spawn_id=self.mark,
            command=self.runs.command,
            cwd=cwd,
            stdin=self._prompt(),
            log=self.log,
            env=env,
            log_cap=self.runs.log_cap_bytes,
            inherit=self.runs.inherit,
            limits=limits_of(self.options.resource_limits),
            allow_weaker=self.options.allow_weaker,
            contained=CONTAINED,
        )
        if self.options.isolation_level is IsolationLevel.PROCESS and self.requirements.network:
            return order
        return await asyncio.to_thread(self._sandboxed, order, context, terminals)

    def _sandboxed(
        self, order: SpawnOrder, context: Path | None, terminals: TerminalManager
    ) -> SpawnOrder:
        """Add the sandbox to an order; probing what the machine can give starts programs."""
        choice = probe.choose(
            self.options.isolation_level.value,
            network=self.requirements.network,
            image=self.requirements.image,
            allow_weaker=order.allow_weaker,
        )
        opened = self.opened or workspace_sandbox.OpenedPaths()
        if context is not None:
            opened = replace(opened, readable=(*opened.readable, context))
        place = workspace_sandbox.SandboxPaths(
            workspace=order.cwd, state=self.folder.parent.parent, home=Path.home()
        )
        path = terminals.environment(order).get("PATH", "")
        sandbox = workspace_sandbox.around(
            choice, place, command=order.command, path=path, opened=opened
        )
        contained = CONTAINED
        if sandbox is not None and sandbox.whole:
            contained = "a process tree of its own without a network; it may do what its user may"
        elif sandbox is not None:
            network = "the machine's network" if sandbox.network else "no network"
            contained = f"{sandbox.engine}: its workspace, a read-only system and {network}"
        weaker = (choice.weaker,) if choice.weaker else ()
        return replace(order, sandbox=sandbox, contained=contained, weaker=weaker)

    @property
    def log(self) -> Path:
        """The log of this start."""
        return self.folder.with_name(f"{self.folder.name}.{self.life}.log")

    def create_folder(self) -> Path:
        """Return its folder, created if necessary; most programs need none."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.folder

    def _cwd(self) -> Path:
        named = self.values.get("workspace")
        if isinstance(named, str) and named:
            return Path(named)
        if self.runs.cwd is not None:
            return self.runs.cwd
        own = self.create_folder() / "work"
        own.mkdir(mode=0o700, exist_ok=True)
        return own

    def _prompt(self) -> Path:
        prompt = self.values.get("prompt")
        if not isinstance(prompt, str):
            return Path(os.devnull)
        file = self.create_folder() / "prompt.md"
        file.write_text(prompt, encoding="utf-8")
        return file

    def clean(self, *, everything: bool) -> None:
        """Remove the files it worked with but its log, or everything it ever wrote."""
        if everything:
            remove_files(self.folder)
        elif self.folder.exists():
            shutil.rmtree(self.folder / "work", ignore_errors=True)
            for name in ("context.json", "prompt.md"):
                (self.folder / name).unlink(missing_ok=True)


def limits_of(limits: ResourceLimits | None) -> Limits:
    """Return the limits that the machine is asked to enforce."""
    if limits is None:
        return NO_LIMITS
    return Limits(
        memory_mb=limits.max_memory_mb,
        cpu_percent=limits.max_cpu_percent or None,
        processes=limits.max_processes,
        open_files=limits.max_open_files,
    )


@functools.lru_cache(maxsize=16)
def mark_prefix(instances: Path) -> str:
    """Return the prefix of the marks of all processes whose instances are kept in a folder."""
    return f"instance.{hashlib.sha256(os.fsencode(instances.resolve())).hexdigest()[:8]}."


def marked_instance(mark: str) -> str:
    """Return the id of the instance that a mark names, in whatever folder; empty if none."""
    match mark.split("."):
        case ["instance", _, instance_id, *_]:
            return instance_id
        case _:
            return ""


def remove_files(folder: Path) -> None:
    """Remove the folder of an instance and the logs beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    for log in folder.parent.glob(f"{folder.name}.*.log"):
        log.unlink(missing_ok=True)
