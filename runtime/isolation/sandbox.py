"""A sandbox as a value: the paths a process can read and write, its network, and its engine.

Plain values. It must not read the disk, start anything, or know how a sandbox is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class SandboxEngine(StrEnum):
    """The programs that can make a sandbox, in order of preference."""

    BUBBLEWRAP = "bubblewrap"
    PODMAN = "podman"
    DOCKER = "docker"

    @property
    def command(self) -> str:
        """The name of its program."""
        return "bwrap" if self is SandboxEngine.BUBBLEWRAP else self.value

    @property
    def shows_system(self) -> bool:
        """Whether this machine's programs are visible inside, not those of an image."""
        return self is SandboxEngine.BUBBLEWRAP


@dataclass(frozen=True, slots=True)
class Sandbox:
    """One sandbox. All paths are absolute; if one contains another, the deeper one wins.

    Besides what is named here a process sees the system's programs and settings (or the image's),
    read-only, and a private empty `/tmp` and home.
    """

    workspace: Path
    """Its working copy: visible at its own path, and writable."""
    network: bool = False
    """True shares the machine's network, loopback services included; False leaves none at all."""
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    login: tuple[Path, ...] = ()
    """The agent's own sign-in. Read-only: what is written there would run outside later."""
    hidden: tuple[Path, ...] = ()
    """Folders that are empty inside; what is written there is lost."""
    masked: tuple[Path, ...] = ()
    """Files that are empty inside."""
    image: str = ""
    """For podman and docker: the image, or for podman a root folder by its absolute path."""
    engine: SandboxEngine = SandboxEngine.BUBBLEWRAP
    program: str = ""
    """The engine's program by its full path; a name alone is looked up when the sandbox starts."""
    options: tuple[str, ...] = ()
    """Extra arguments that the engine needs on this machine; they come first."""
    shield: str = "env"
    """Name of the wrapper that makes the engine ignore a TERM meant for the process inside."""
    read_only: bool = False
    """The working copy cannot be written either."""
    whole: bool = False
    """Share everything with the machine except what is taken away: the network, and the right to
    write in `readable` places, of which `writable` ones may be a part. Nothing else above is used.
    """

    @classmethod
    def open(cls, workspace: Path, *, program: str = "", shield: str = "env") -> Sandbox:
        """Return the sandbox that only removes the network."""
        return cls(workspace, program=program, shield=shield, whole=True)
