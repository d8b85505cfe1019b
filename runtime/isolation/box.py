"""What a box is: which paths a process sees and writes, whether it has a network, and who makes it.

Plain values. It must not look at the disk, start anything, or know how a box is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Engine(StrEnum):
    """The programs that can make a box, in the order in which they are preferred."""

    BUBBLEWRAP = "bubblewrap"
    PODMAN = "podman"
    DOCKER = "docker"

    @property
    def command(self) -> str:
        """The name of its program."""
        return "bwrap" if self is Engine.BUBBLEWRAP else self.value

    @property
    def shows_system(self) -> bool:
        """Inside are this machine's programs, not those of an image."""
        return self is Engine.BUBBLEWRAP


@dataclass(frozen=True, slots=True)
class Box:
    """One box. All paths are absolute; where two cover the same place, the deeper one holds.

    Beside what is named here a process sees the system's programs and settings (or the image's),
    read-only, and a private empty `/tmp` and home.
    """

    workspace: Path
    """Its working copy: visible at its own path, and writable."""
    network: bool = False
    """True shares the machine's network, loopback services included; False leaves none at all."""
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    login: tuple[Path, ...] = ()
    """The agent's own sign-in. Read-only: what can be written there, runs outside the box later."""
    hidden: tuple[Path, ...] = ()
    """Folders that are empty inside, whatever lies around them; what is written there is lost."""
    masked: tuple[Path, ...] = ()
    """Files that are empty inside."""
    image: str = ""
    """For podman and docker: the image, or for podman a root folder by its absolute path."""
    engine: Engine = Engine.BUBBLEWRAP
    program: str = ""
    """The engine's program by its full path; a name alone is looked up when the box starts."""
    options: tuple[str, ...] = ()
    """What the engine needs on this machine, put before everything else."""
    shield: str = "env"
    """Who keeps the engine from dying of a TERM that is meant for the process inside."""
    whole: bool = False
    """Share everything with the machine but the network; then no path above has a meaning."""

    @classmethod
    def open(cls, workspace: Path, *, program: str = "", shield: str = "env") -> Box:
        """Return the box that takes away the network and nothing else."""
        return cls(workspace, program=program, shield=shield, whole=True)
