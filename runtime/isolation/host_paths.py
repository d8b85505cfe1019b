"""Paths of the host that a process needs besides its workspace, and paths it must not see.

Reads the disk. It must not start anything, nor decide what a level promises.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import SpawnError
from runtime.isolation.bubblewrap import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Iterable

_ETC = Path("/etc")
_SECRETS = ("shadow", "shadow-", "gshadow", "gshadow-", "krb5.keytab", "sudoers")
_SECRET_FOLDERS = (
    *("ssl/private", "sudoers.d", "letsencrypt", "wireguard", "kubernetes", "docker"),
    "NetworkManager/system-connections",
)
_HOST_KEYS = "ssh_host_*_key"
_LOGINS = {
    "claude": (".claude/.credentials.json", ".claude/settings.json"),
    "codex": (".codex/auth.json", ".codex/config.toml"),
    "gemini": (
        *(".gemini/oauth_creds.json", ".gemini/settings.json"),
        *(".gemini/google_accounts.json", ".gemini/installation_id"),
    ),
    "opencode": (
        *(".local/share/opencode/auth.json", ".config/opencode/opencode.json"),
        ".config/opencode/opencode.jsonc",
    ),
}
_INSTALLED = ("pyvenv.cfg", "lib", "libexec", "share", "node_modules")
"""One of these is next to the `bin` of an installation."""
_SHARED_PREFIXES = frozenset({".local", "home", "Users"})
_LINKS_AT_MOST = 40
_INTERPRETERS_AT_MOST = 4
_SHEBANG = 256
_MAKERS = ("python3", "python", "node")
"""Programs with which the set-up of a checkout creates environments that refer to them."""


def login_paths(agent: str, home: Path) -> tuple[Path, ...]:
    """Find the credential files of a known agent program, by its name."""
    return tuple(path for name in _LOGINS.get(agent, ()) if (path := home / name).is_file())


def secret_files(etc: Path = _ETC) -> tuple[Path, ...]:
    """Find the files of the system's settings that hold secrets only root may read."""
    files = [*(etc / name for name in _SECRETS), *(etc / "ssh").glob(_HOST_KEYS)]
    return tuple(path for path in files if path.is_file())


def secret_folders(etc: Path = _ETC) -> tuple[Path, ...]:
    """Find the folders of the same kind."""
    return tuple(path for name in _SECRET_FOLDERS if (path := etc / name).is_dir())


def own_programs() -> tuple[Path, ...]:
    """Find this Python and these packages, for agents that call `loopwright signal`."""
    prefixes = {Path(sys.prefix), Path(sys.base_prefix)}
    # A prefix of the system itself is visible anyway.
    found = [path for path in sorted(prefixes) if not _in_system(path)]
    root = Path(__file__).resolve().parents[2]
    if not any(root.is_relative_to(prefix) for prefix in prefixes):
        found += sorted(marker.parent for marker in root.glob("*/py.typed"))
    return tuple(found)


@lru_cache(maxsize=16)
def interpreters(path: str, home: Path) -> tuple[Path, ...]:
    """Find the Python and Node on a PATH: environments of a checkout refer to them.

    Not virtual environments on the PATH: those belong to the user's own checkout.
    """
    found: dict[Path, None] = {}
    for name in _MAKERS:
        with contextlib.suppress(SpawnError):
            found |= dict.fromkeys(program_paths(name, Path("/"), path, home))
    made_by_uv = home / ".local" / "share" / "uv" / "python"
    own = [each for each in found if not (each / "pyvenv.cfg").is_file()]
    return (*own, *((made_by_uv,) if made_by_uv.is_dir() else ()))


def program_paths(program: str, cwd: Path, path: str, home: Path) -> tuple[Path, ...]:
    """Find what must be visible so that a program can be run; SpawnError when there is none.

    For a program with an installation folder of its own (`X/bin/program` with `X/lib` or similar)
    the whole folder is needed, also for every link on the path to it, and for its interpreter.
    """
    needed: set[Path] = set()
    wanted = program
    for _ in range(_INTERPRETERS_AT_MOST):
        found = shutil.which(str(cwd / wanted) if "/" in wanted else wanted, path=path)
        if found is None:
            raise SpawnError(
                f"{wanted} was not found from {cwd}. Install it, give its full path, or put its "
                "folder on the PATH of the runner."
            )
        # Not resolved: the links on the path must be visible, too.
        steps = tuple(_links(Path(os.path.abspath(found))))  # noqa: PTH100  # as said
        needed.update(_installation(step, home) for step in steps)
        wanted = _interpreter(steps[-1])
        if not wanted:
            break
    return tuple(sorted(each for each in needed if not _is_there(each, cwd)))


def _interpreter(program: Path) -> str:
    """Return the interpreter of a script; empty if it is not a script, or unreadable."""
    try:
        with program.open("rb") as stream:
            line = stream.readline(_SHEBANG).decode()
    except (OSError, ValueError):
        return ""
    words = line.removeprefix("#!").split()
    if not line.startswith("#!") or not words:
        return ""
    if Path(words[0]).name != "env":
        return words[0]
    return next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")


def _links(program: Path) -> Iterable[Path]:
    """Follow the links of a program one by one; each may be in another folder."""
    for _ in range(_LINKS_AT_MOST):
        yield program
        if not program.is_symlink():
            break
        program = Path(os.path.normpath(program.parent / program.readlink()))
    yield program.resolve()


def _installation(program: Path, home: Path) -> Path:
    folder = program.parent
    prefix = folder.parent
    own = folder.name in ("bin", ".bin") and _is_own(prefix, home)
    if own and (prefix.name == "node_modules" or _is_installation(prefix)):
        return prefix
    return program


def _is_own(prefix: Path, home: Path) -> bool:
    """Tell whether a folder belongs to one installation, not to a person or the machine."""
    if home.is_relative_to(prefix) or prefix.name in _SHARED_PREFIXES:
        return False
    return prefix != Path(prefix.anchor)


def _is_installation(prefix: Path) -> bool:
    """Tell whether a folder looks like an installation, not like somebody's work."""
    if os.path.lexists(prefix / ".git"):
        return False
    return any((prefix / name).exists() for name in _INSTALLED)


def _is_there(path: Path, workspace: Path) -> bool:
    return _in_system(path) or path.is_relative_to(workspace)


def _in_system(path: Path) -> bool:
    return any(path.is_relative_to(place) for place in SYSTEM)
