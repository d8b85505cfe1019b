"""Which agent programs are on this machine, and whether somebody is signed in to them.

Looks for programs, files and variables; starts nothing. It must not read what a sign-in says.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.launch.programs import installed
from runtime.agents.catalogue import built_in
from runtime.isolation.host_paths import login_paths

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from runtime.agents.adapter import Adapter

_CREDENTIALS = frozenset({".credentials.json", "auth.json", "oauth_creds.json"})
_MOVED_BY = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}
"""Variables that name another folder for the credentials."""
_SECRET = ("_KEY", "_TOKEN")


@dataclass(frozen=True, slots=True)
class AgentHere:
    """One agent program that is installed."""

    name: str
    path: str
    signed_in: bool
    keys: tuple[str, ...]
    """Variables with a key that are set, and that it gets only if `pass_env` names them."""
    login: str
    """How a person signs in."""

    @property
    def told(self) -> str:
        """Say it in a line."""
        if self.signed_in:
            return f"{self.name} at {self.path}, signed in"
        if self.keys:
            return (
                f"{self.name} at {self.path}, not signed in; {self.keys[0]} is set and withheld: "
                f'pass_env = ["{self.keys[0]}"] passes it on'
            )
        return f"{self.name} at {self.path}, no sign-in found. {self.login}"


def agents_here(environ: Mapping[str, str]) -> tuple[AgentHere, ...]:
    """Return the programs that are installed, those that can work at once first."""
    found = [_looked_at(built_in(name), path, environ) for name, path in installed().items()]
    return tuple(sorted(found, key=lambda each: (not each.signed_in, not each.keys)))


def is_secret(name: str) -> bool:
    """Tell by its name whether a variable holds a key."""
    return name.endswith(_SECRET)


def withheld_keys(
    adapter: Adapter, environ: Mapping[str, str], passed: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the variables with a key for this program that are set and are not passed on."""
    return tuple(
        name
        for name in adapter.keys
        if is_secret(name) and environ.get(name) and name not in passed
    )


def signed_in(adapter: Adapter, environ: Mapping[str, str]) -> bool:
    """Tell whether a sign-in is kept where the program keeps it, or comes by a variable."""
    if any(is_secret(name) and environ.get(name) for name in adapter.passes):
        return True
    moved = environ.get(_MOVED_BY.get(adapter.name, ""), "")
    if moved:
        return any((Path(moved) / name).is_file() for name in _CREDENTIALS)
    home = Path(environ.get("HOME") or "/")
    if any(path.name in _CREDENTIALS for path in login_paths(adapter.name, home)):
        return True
    # There it keeps the sign-in in the system's keychain, beside this file.
    in_keychain = sys.platform == "darwin" and adapter.name == "claude"
    return in_keychain and (home / ".claude.json").is_file()


def _looked_at(adapter: Adapter, path: str, environ: Mapping[str, str]) -> AgentHere:
    return AgentHere(
        adapter.name,
        path,
        signed_in(adapter, environ),
        withheld_keys(adapter, environ),
        adapter.login,
    )
