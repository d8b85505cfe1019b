"""Hands a service to systemd or launchd, takes it back, and asks how it does.

Owns where its file lies. Each thing done is a command that `--dry-run` shows, and can be repeated.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.background.service_files import launchd_plist, systemd_unit
from orchestrator.errors import OrchestratorError
from runtime.private_files import make_private, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orchestrator.background.service_files import ServiceFacts

    Command = tuple[str, ...]

SYSTEMD, LAUNCHD = "systemd", "launchd"
MANAGERS = (SYSTEMD, LAUNCHD)
_PATIENCE = 360.0
"""Seconds for one command: ending a service saves the work of its agents."""


class ServiceError(OrchestratorError):
    """The system's service manager refused."""


def usual_manager() -> str:
    """Return the manager that this system has."""
    return LAUNCHD if sys.platform == "darwin" else SYSTEMD


@dataclass(frozen=True, slots=True)
class ServiceManager:
    """One of the two, for the user who runs this."""

    kind: str
    environ: Mapping[str, str]

    def file(self, name: str) -> Path:
        """Return where the file of a service lies."""
        home = Path(self.environ.get("HOME") or Path.home())
        if self.kind == LAUNCHD:
            return home / "Library" / "LaunchAgents" / f"{name}.plist"
        config = self.environ.get("XDG_CONFIG_HOME", "")
        base = Path(config) if os.path.isabs(config) else home / ".config"  # noqa: PTH117  # a text
        return base / "systemd" / "user" / f"{name}.service"

    def content(self, facts: ServiceFacts) -> bytes:
        """Return what its file says."""
        return launchd_plist(facts) if self.kind == LAUNCHD else systemd_unit(facts).encode()

    def starting(self, name: str, *, changed: bool) -> list[Command]:
        """Return the commands that start it now and at each login."""
        if self.kind == LAUNCHD:
            out = [self._bootout(name)] if changed else []
            return [*out, ("launchctl", "bootstrap", _domain(), str(self.file(name)))]
        unit = f"{name}.service"
        start = "restart" if changed else "start"
        return [_systemctl("daemon-reload"), _systemctl("enable", unit), _systemctl(start, unit)]

    def ending(self, name: str) -> list[Command]:
        """Return the commands that end it, and keep it from starting again."""
        if self.kind == LAUNCHD:
            return [self._bootout(name)]
        return [_systemctl("disable", "--now", f"{name}.service")]

    def state(self, name: str) -> str:
        """Return what the manager calls its state: active, failed, inactive and others."""
        if self.kind == LAUNCHD:
            done = self._run(("launchctl", "print", f"{_domain()}/{name}"))
            found = [
                line.split("=", 1)[1] for line in done.stdout.splitlines() if "state =" in line
            ]
            return found[0].strip() if found else "inactive"
        done = self._run(_systemctl("is-active", f"{name}.service"))
        return done.stdout.strip() or "unknown"

    def install(self, facts: ServiceFacts, told: Callable[[Command], None]) -> bool:
        """Write its file and start it; returns whether the file is another than before."""
        path, content = self.file(facts.name), self.content(facts)
        before = path.read_bytes() if path.exists() else None
        if before != content:
            make_private(path.parent)
            write_whole(path, content)
        loaded = (
            before is not None and self.kind == LAUNCHD and self.state(facts.name) != "inactive"
        )
        if before == content and loaded:
            return False
        changed = before not in (None, content)
        for command in self.starting(facts.name, changed=changed):
            told(command)
            # What launchd does not have cannot be taken out of it first.
            self._do(command, f"{path} is written", may_fail="bootout" in command)
        return before != content

    def uninstall(self, name: str, told: Callable[[Command], None]) -> bool:
        """End it and remove its file; returns whether there was one."""
        path = self.file(name)
        if not path.exists():
            return False
        for command in self.ending(name):
            told(command)
            self._do(command, f"{path} stays", may_fail="bootout" in command)
        path.unlink(missing_ok=True)
        if self.kind == SYSTEMD:
            told(reload := _systemctl("daemon-reload"))
            self._do(reload, f"{path} is removed")
        return True

    def lingers(self) -> bool | None:
        """Tell whether services go on when their user logs out; None where nobody can say."""
        if self.kind == LAUNCHD:
            return None
        try:
            done = self._run(("loginctl", "show-user", str(os.getuid()), "--property=Linger"))
        except ServiceError:
            return None
        return {"Linger=yes": True, "Linger=no": False}.get(done.stdout.strip())

    def _bootout(self, name: str) -> Command:
        return ("launchctl", "bootout", f"{_domain()}/{name}")

    def _do(self, command: Command, so_far: str, *, may_fail: bool = False) -> None:
        done = self._run(command)
        if done.returncode and not may_fail:
            why = (done.stderr.strip() or done.stdout.strip()).replace("\n", "; ")
            raise ServiceError(f"`{' '.join(command)}` failed ({why or done.returncode}); {so_far}")

    def _run(self, command: Command) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                command,
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PATIENCE,
                check=False,
            )
        except FileNotFoundError as missing:
            raise ServiceError(
                f"{command[0]} is not on this machine, so {self.kind} cannot start a service here; "
                "use `loopwright up --detach`, or see --dry-run for what another one needs"
            ) from missing
        except subprocess.TimeoutExpired as late:
            raise ServiceError(
                f"`{' '.join(command)}` did not end within {_PATIENCE:g} s"
            ) from late


def _systemctl(*words: str) -> Command:
    return ("systemctl", "--user", *words)


def _domain() -> str:
    return f"gui/{os.getuid()}"
