"""Sandboxes made by bubblewrap: own namespaces, a read-only system, no privileges.

Pure. It must not start anything or look at the disk.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from runtime.isolation.mounts import TEMPORARY, MountKind, mounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from runtime.isolation.sandbox import Sandbox

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"),
    *("/nix/store", "/gnu/store", "/run/current-system"),
    # Where /etc/resolv.conf leads; the folders around these hold sockets.
    *("/run/systemd/resolve/stub-resolv.conf", "/run/systemd/resolve/resolv.conf"),
    *("/run/resolvconf/resolv.conf", "/run/NetworkManager/resolv.conf", "/mnt/wsl/resolv.conf"),
)
"""Visible parts of the system, if they exist. All else must be named explicitly."""
_KERNEL = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "mtrr", "asound", "driver")
"""Below /proc: root may write these even without any capability, and so leave the sandbox."""
_NAMESPACES = (
    *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    *("--unshare-cgroup-try", "--hostname", "loopwright"),
)
_HOST_SOCKETS = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "DISPLAY")
_TEMPORARY_NAMES = ("TMPDIR", "TMP", "TEMP")

_PERL = '$SIG{TERM}="%s"; exec {$ARGV[0]} @ARGV or exit 127'
_PYTHON = "import os,signal,sys;signal.signal(15,signal.%s);os.execvp(sys.argv[1],sys.argv[1:])"
SHIELDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "env": (
        ("/usr/bin/env", "--ignore-signal=TERM"),
        ("/usr/bin/env", "--default-signal=TERM"),
    ),
    "perl": (
        ("/usr/bin/perl", "-e", _PERL % "IGNORE"),
        ("/usr/bin/perl", "-e", _PERL % "DEFAULT"),
    ),
    "python": (
        (sys.executable, "-I", "-S", "-c", _PYTHON % "SIG_IGN"),
        (sys.executable, "-I", "-S", "-c", _PYTHON % "SIG_DFL"),
    ),
}
"""By name: what makes bubblewrap ignore TERM, and what undoes that for the process inside.

TERM is sent to a whole tree. It would end bubblewrap itself first, and that kills the process
inside at once, without any grace.
"""


def command_line(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], sandbox: Sandbox
) -> tuple[str, ...]:
    """Build the whole command line."""
    ignoring, restoring = SHIELDS[sandbox.shield]
    inside = tuple(command)
    if "=" in inside[0]:
        # `env` would treat it as a variable.
        inside = ("/bin/sh", "-c", 'exec "$0" "$@"', *inside)
    return (
        *ignoring,
        sandbox.program or sandbox.engine.command,
        *sandbox.options,
        # Never start it from a thread that ends: the kernel treats that as the end of the parent.
        "--die-with-parent",
        *(() if sandbox.network else ("--unshare-net",)),
        *(_whole(sandbox) if sandbox.whole else _closed(sandbox, env)),
        *("--chdir", str(cwd), "--"),
        *restoring,
        *inside,
    )


def environment(env: Mapping[str, str], sandbox: Sandbox) -> dict[str, str]:
    """Adapt the environment: bubblewrap passes its own on, and some of it is wrong inside."""
    if sandbox.whole:
        return dict(env)
    inside = {name: value for name, value in env.items() if name not in _HOST_SOCKETS}
    return inside | {name: str(TEMPORARY) for name in _TEMPORARY_NAMES if name in env}


def _whole(sandbox: Sandbox) -> Iterator[str]:
    yield from ("--dev-bind", "/", "/")
    for path in sorted(sandbox.readable):  # parents first: a later mount would undo an inner one
        yield from ("--ro-bind", str(path), str(path))
    for path in sandbox.writable:
        yield from ("--bind", str(path), str(path))


def _closed(sandbox: Sandbox, env: Mapping[str, str]) -> Iterator[str]:
    yield from _NAMESPACES
    yield from ("--new-session", "--cap-drop", "ALL")
    for place in SYSTEM:
        yield from ("--ro-bind-try", place, place)
    yield from ("--proc", "/proc")
    for name in _KERNEL:
        yield from ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
    yield from ("--dev", "/dev")
    for path, kind in mounts(sandbox, env):
        place = str(path)
        if kind is MountKind.EMPTY:
            yield from ("--tmpfs", place)
        elif kind is MountKind.NOTHING:
            yield from ("--ro-bind", "/dev/null", place)
        else:
            yield from ("--ro-bind" if kind is MountKind.READ else "--bind", place, place)
