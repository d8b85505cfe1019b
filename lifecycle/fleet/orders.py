"""What is ordered for one start of a program: its folder, prompt, context, log and limits.

Also the names of the files of an instance. It must not start anything.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.limits import NO_LIMITS, Limits
from runtime.process import SpawnOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lifecycle.fleet.instances import AgentInstance
    from lifecycle.fleet.options import ResourceLimits
    from lifecycle.fleet.registry import CommandAgent


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """One start of one program."""

    instance: AgentInstance
    runs: CommandAgent
    limits: ResourceLimits | None
    values: Mapping[str, Any]
    """Context of the spawn request."""
    life: int
    """Counts the starts of the instance."""
    folder: Path
    """Its own, made when it needs one."""

    @property
    def mark(self) -> str:
        """Under which its processes are known, by whichever runner."""
        return f"{mark_prefix(self.folder.parent)}{self.instance.instance_id}.{self.life}"

    def prepare(self) -> tuple[SpawnOrder, Path | None]:
        """Write what it reads; return the order, and the file of its context."""
        cwd, context = self._cwd(), None
        env = {
            **self.runs.env,
            "LOOPWRIGHT_AGENT_ID": self.instance.name or str(self.instance.instance_id),
            "LOOPWRIGHT_INSTANCE_ID": str(self.instance.instance_id),
            "LOOPWRIGHT_ATTEMPT": str(self.life),
            "GIT_CEILING_DIRECTORIES": str(cwd.parent),
        }
        if self.values:
            context = self.made() / "context.json"
            context.write_text(json.dumps(dict(self.values)), encoding="utf-8")
            env["LOOPWRIGHT_CONTEXT_FILE"] = str(context)
        options = self.instance.spawn_options
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
            limits=limits_of(self.limits),
            allow_weaker=options is not None and options.allow_weaker,
        )
        return order, context

    @property
    def log(self) -> Path:
        """What this start of it printed."""
        return self.folder.with_name(f"{self.folder.name}.{self.life}.log")

    def made(self) -> Path:
        """Return its folder; most programs need none."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.folder

    def _cwd(self) -> Path:
        named = self._value("workspace")
        if isinstance(named, str) and named:
            return Path(named)
        if self.runs.cwd is not None:
            return self.runs.cwd
        own = self.made() / "work"
        own.mkdir(mode=0o700, exist_ok=True)
        return own

    def _prompt(self) -> Path:
        prompt = self._value("prompt")
        if not isinstance(prompt, str):
            return Path(os.devnull)
        file = self.made() / "prompt.md"
        file.write_text(prompt, encoding="utf-8")
        return file

    def _value(self, key: str) -> Any:
        return next((each for name, each in self.values.items() if name.lower() == key), None)

    def clean(self, *, everything: bool) -> None:
        """Remove what it worked with, but not its log; or all it ever wrote."""
        if everything:
            forget_files(self.folder)
        elif self.folder.exists():
            shutil.rmtree(self.folder / "work", ignore_errors=True)
            for name in ("context.json", "prompt.md"):
                (self.folder / name).unlink(missing_ok=True)


def limits_of(limits: ResourceLimits | None) -> Limits:
    """Return what the machine is asked to enforce."""
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
    """Return how the mark of every process begins that belongs to instances kept there."""
    return f"instance.{hashlib.sha256(os.fsencode(instances.resolve())).hexdigest()[:8]}."


def marked_instance(mark: str) -> str:
    """Return the id of the instance that a mark names, wherever that is kept; empty if none."""
    match mark.split("."):
        case ["instance", _, instance_id, *_]:
            return instance_id
        case _:
            return ""


def forget_files(folder: Path) -> None:
    """Remove the folder of an instance and the logs beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    for log in folder.parent.glob(f"{folder.name}.*.log"):
        log.unlink(missing_ok=True)
