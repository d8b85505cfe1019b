"""Builds the sandbox of one agent's workspace, from the settings and the host.

Owns what an agent of a git repository needs. It must not start anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime.errors import IsolationError
from runtime.isolation import host_paths
from runtime.isolation.git_paths import GitPaths, git_paths, readable_objects
from runtime.isolation.sandbox import Sandbox
from runtime.workspaces import worktrees_dir

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runtime.isolation.probe import SandboxChoice


@dataclass(frozen=True, slots=True)
class SandboxPaths:
    """One workspace and the paths that belong to it."""

    workspace: Path
    state: Path
    """The runner's own folder, hidden, as is the folder of all workspaces around this one."""
    home: Path
    """The real home folder of the user, hidden."""
    common_dir: Path | None = None
    """The git folder of the recorded repository; None when the workspace is not a git worktree."""
    objects: Path | None = None
    """The objects that a judging checkout reads; None for any other folder."""
    summary: Path | None = None
    mailbox: Path | None = None
    config: Path | None = None
    """Private settings of the agent's program."""
    fixed: tuple[Path, ...] = ()
    """Paths in the workspace that are read-only."""
    guarded: tuple[Path, ...] = ()
    """Folders that a reader must not change, where all of the machine is visible; none for who may
    write in the workspace."""


@dataclass(frozen=True, slots=True)
class OpenedPaths:
    """Further paths that a person allows, by settings."""

    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    login: str = ""
    """The name of a known agent program, or a path."""


def around(
    choice: SandboxChoice,
    place: SandboxPaths,
    *,
    command: Sequence[str] = (),
    path: str = "",
    opened: OpenedPaths = OpenedPaths(),
) -> Sandbox | None:
    """Build the sandbox for a choice; None when there is to be none.

    `command` and the agent's PATH tell which programs must be visible. SpawnError says what is
    missing, PlantedPointerError that the workspace was tampered with.
    """
    engine = choice.engine
    if engine is None:
        return None
    workspace = place.workspace.resolve()
    if choice.level != "container":
        return replace(
            Sandbox.open(workspace, program=engine.program, shield=engine.shield),
            network=choice.network,
            readable=place.guarded,
            writable=(place.config,) if place.config else (),
        )
    _check_mailbox(place, workspace)
    git = git_paths(workspace, place.common_dir) if place.common_dir else GitPaths()
    objects = readable_objects(place.objects) if place.objects else ()
    home = place.home.resolve()
    others = worktrees_dir.around(workspace)
    hidden = (home, place.state.resolve(), *((others,) if others else ()), *git.hidden)
    programs: tuple[Path, ...] = ()
    masked: tuple[Path, ...] = ()
    if engine.engine.shows_system:
        programs = (*host_paths.own_programs(), *host_paths.interpreters(path, home))
        if command:
            programs += host_paths.program_paths(command[0], workspace, path, home)
        hidden += host_paths.secret_folders()
        masked = host_paths.secret_files()
    summary = (place.summary,) if place.summary and place.summary.is_file() else ()
    return Sandbox(
        workspace,
        network=choice.network,
        read_only=bool(place.guarded),
        readable=(
            *(*programs, *git.readable, *objects),
            *(*opened.readable, *summary, *place.fixed),
        ),
        writable=(*git.writable, *opened.writable, *((place.config,) if place.config else ())),
        login=_login(opened.login, home),
        # What does not exist need not be hidden, and could not be created in a read-only place.
        hidden=tuple(path for path in hidden if path.is_dir()),
        masked=masked,
        image=choice.image,
        engine=engine.engine,
        program=engine.program,
        options=engine.options,
        shield=engine.shield,
    )


def _check_mailbox(place: SandboxPaths, workspace: Path) -> None:
    if place.mailbox and not place.mailbox.resolve().is_relative_to(workspace):
        raise IsolationError(
            f"{place.mailbox} lies outside of the workspace {workspace}, so an agent in a sandbox "
            "could not write it. Keep one communications.json in each workspace."
        )


def _login(wanted: str, home: Path) -> tuple[Path, ...]:
    if not wanted:
        return ()
    if "/" not in wanted:
        found = host_paths.login_paths(wanted, home)
        if not found:
            raise IsolationError(
                f"no sign-in of {wanted} was found in {home}. Sign in with it, name its files, or "
                "hand a key over in a variable."
            )
        return found
    path = home / wanted.removeprefix("~/")
    if not path.exists():
        raise IsolationError(f"there is no {path} to sign in with. Name an existing file.")
    return (path,)
