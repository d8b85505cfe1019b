"""Agent programs on this machine: which are installed, and how a recorded run of one ended.

Owns looking for programs, asking their version and reading recorded output. It must not decide
what an outcome means for a lifecycle.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.errors import OrchestratorError
from orchestrator.terminal.text import tell
from runtime.agents.parsing.fields import line_of
from runtime.agents.parsing.lines import LineCutter
from runtime.async_subprocess import run_to_end
from runtime.environment import allowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import tzinfo
    from pathlib import Path

    from runtime.agents.adapter import Adapter
    from runtime.agents.outcome import RunOutcome
    from runtime.agents.parsing.parser import Clock

PATIENCE = 20.0
"""Seconds for a program to tell its version; the first start of some unpacks a lot."""
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Installed:
    """What there is of one adapter on this machine."""

    adapter: Adapter = field(repr=False)
    path: str = ""
    version: str = ""
    problem: str = ""

    @property
    def tested(self) -> bool:
        """Whether this very version was tested."""
        return self.version in self.adapter.tested

    def to_json(self) -> dict[str, Any]:
        """Return it for programs; what is not known is null."""
        return {
            "name": self.adapter.name,
            "title": self.adapter.title,
            "installed": bool(self.path) or not self.adapter.programs,
            "path": self.path or None,
            "version": self.version or None,
            "tested": self.tested if self.version else None,
            "versions_tested": list(self.adapter.tested),
            "tool_server": None if self.adapter.mcp is None else str(self.adapter.mcp.way),
            "problem": self.problem or None,
            "install": install_of(self.adapter) or None,
            "login": self.adapter.login or None,
        }


def install_of(adapter: Adapter) -> str:
    """Say what a person does to get the version that was tested; other managers name none."""
    if not adapter.tested or not adapter.install.startswith("npm "):
        return adapter.install
    return f"{adapter.install}@{adapter.tested[-1]}"


async def look(
    adapters: Iterable[Adapter], environ: Mapping[str, str], folder: Path
) -> list[Installed]:
    """Tell for each adapter what is installed; `folder` is where the programs are asked from."""
    return list(await asyncio.gather(*(_look(each, environ, folder) for each in adapters)))


def place_of(adapter: Adapter, environ: Mapping[str, str]) -> str:
    """Return where the first of its programs is that is on the PATH; empty if none is."""
    places = (shutil.which(name, path=environ.get("PATH", "")) for name in adapter.programs)
    return next((each for each in places if each), "")


def left_out(point: str, why: str) -> None:
    """Say that an adapter from elsewhere cannot be used."""
    tell(f"the adapter of {point} is left out: {why}")


async def _look(adapter: Adapter, environ: Mapping[str, str], folder: Path) -> Installed:
    path = place_of(adapter, environ)
    if not path:
        return Installed(adapter)
    try:
        done = await run_to_end(
            (path, *adapter.version_argv),
            cwd=folder,
            env=allowed(environ) | dict(adapter.env),
            data=None,
            seconds=PATIENCE,
        )
    except OSError as problem:
        return Installed(adapter, path, problem=f"it cannot be started: {problem.strerror}")
    if done.timed_out:
        return Installed(adapter, path, problem=f"no version within {PATIENCE:g} s")
    said = (done.stdout or done.stderr).decode("utf-8", "replace")
    found = re.search(adapter.version_pattern, said)
    if done.code or found is None:
        told = line_of(said, 200) or "nothing"
        return Installed(adapter, path, problem=f"asked for its version it said: {told}")
    return Installed(adapter, path, line_of(found[1], 100))


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is kept of a run."""

    stdout: Path
    exit_code: int
    """Negative where a signal ended it."""
    stderr: Path | None = None


def judged(
    adapter: Adapter, recorded: Recorded, now: Clock, zone: tzinfo | None = None
) -> RunOutcome:
    """Say how a recorded run ended; `now` and `zone` are for times of day without a date."""
    parser, cutter = adapter.parser(now, zone, live=False), LineCutter()
    try:
        with recorded.stdout.open("rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                for line in cutter.cut(chunk):
                    parser.feed(line)
        for line in cutter.end():
            parser.feed(line)
        tail = "" if recorded.stderr is None else _tail(recorded.stderr)
    except OSError as problem:
        raise OrchestratorError(
            f"{problem.filename or recorded.stdout} cannot be read: {problem.strerror}; name the "
            "file that holds what the program wrote"
        ) from problem
    parser.passed_over(cutter.too_long)
    return parser.finish(recorded.exit_code, stderr_tail=tail)


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _CHUNK))
        return file.read(_CHUNK).decode("utf-8", "replace")
