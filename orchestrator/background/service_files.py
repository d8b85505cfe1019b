"""The files by which systemd and launchd start a runner for a user. Pure: texts from values.

Must not write, start or ask anything, nor hold a secret: those are read from a file of the user's.
"""

from __future__ import annotations

import plistlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.errors import OrchestratorError
from orchestrator.terminal import exits

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STOP_S = 300
"""Seconds in which agents end and their work is saved, before all of it is killed."""
RESTART_S = 30
_OVER = (
    exits.USAGE,
    exits.BLOCKED,
    exits.WAITING_OUTSIDE,
    exits.LIMIT_REACHED,
    exits.FAILED,
)
"""Ends after which another start would come to the same."""
_ENDED = (exits.INTERRUPTED, exits.TERMINATED)
_WITH_FILE = 'set -a; [ ! -r "$1" ] || . "$1"; set +a; shift; exec "$@"'
"""launchd reads no file of variables: a shell does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFacts:
    """What a service runs, and with what."""

    name: str
    """Of the service; one for each repository."""
    told: str
    """What people read about it."""
    command: tuple[str, ...]
    folder: Path
    variables: Mapping[str, str]
    secrets: Path
    """A file of variables that only its user can read; it need not be there."""
    log: Path
    """Where its output goes, if the system keeps none."""
    says_ready: bool
    """Whether it is to be waited for until it says that it is ready."""


def systemd_unit(facts: ServiceFacts) -> str:
    """Return the unit of a user's systemd."""
    variables = [
        f"Environment={_quoted(f'{name}={value}')}" for name, value in facts.variables.items()
    ]
    lines = [
        "[Unit]",
        f"Description={_specifiers(facts.told)}",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        f"Type={'notify' if facts.says_ready else 'exec'}",
        f"ExecStart={' '.join(_quoted(word).replace('$', '$$') for word in facts.command)}",
        f"WorkingDirectory={_specifiers(str(facts.folder))}",
        *variables,
        f"EnvironmentFile=-{_specifiers(str(facts.secrets))}",
        "Restart=on-failure",
        f"RestartSec={RESTART_S}",
        f"RestartPreventExitStatus={' '.join(map(str, _OVER))}",
        f"SuccessExitStatus={' '.join(map(str, _ENDED))}",
        "TimeoutStartSec=infinity",
        "# The runner ends its agents and saves their work; what is left then is killed.",
        "KillMode=mixed",
        f"TimeoutStopSec={STOP_S}",
        "Delegate=yes",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(map(_one_line, lines)) + "\n"


def launchd_plist(facts: ServiceFacts) -> bytes:
    """Return the property list of a user's launchd agent."""
    start = ("/bin/sh", "-c", _WITH_FILE, "loopwright", str(facts.secrets), *facts.command)
    return plistlib.dumps(
        {
            "Label": facts.name,
            "ProgramArguments": list(start),
            "WorkingDirectory": str(facts.folder),
            "EnvironmentVariables": dict(facts.variables),
            "RunAtLoad": True,
            # Only after a crash: what ended by itself, or was ended, stays so.
            "KeepAlive": {"Crashed": True},
            "ThrottleInterval": RESTART_S,
            "ExitTimeOut": STOP_S,
            "StandardOutPath": str(facts.log),
            "StandardErrorPath": str(facts.log),
        }
    )


def _one_line(line: str) -> str:
    if "\n" in line or "\r" in line:
        raise OrchestratorError(
            f"a service cannot be made of a name with a line break in it: {line!r}; rename it"
        )
    return line


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    escaped = _specifiers(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
