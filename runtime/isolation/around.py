"""The box around one agent's workspace, put together from what was chosen and what lies around.

The one place that knows what an agent of a git repository needs. It must not start anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime import worktrees_dir
from runtime.isolation import surroundings
from runtime.isolation.box import Box
from runtime.isolation.errors import IsolationError
from runtime.isolation.gitpaths import GitPaths, git_paths, readable_objects

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runtime.isolation.probe import Choice


@dataclass(frozen=True, slots=True)
class Place:
    """One workspace and what belongs to it."""

    workspace: Path
    state: Path
    """The runner's own folder, hidden, as is the folder of all workspaces around this one."""
    home: Path
    """The real home of whoever runs this, hidden."""
    common_dir: Path | None = None
    """The git folder of the recorded repository; None when the workspace is no git worktree."""
    objects: Path | None = None
    """The objects that a judging checkout reads; None for any other folder."""
    summary: Path | None = None
    mailbox: Path | None = None
    config: Path | None = None
    """Private settings of the agent's program."""
    fixed: tuple[Path, ...] = ()
    """What lies in the workspace and is read-only all the same."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a person opens beyond that, by settings."""

    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    login: str = ""
    """The name of a known agent program, or a path."""


def around(
    choice: Choice,
    place: Place,
    *,
    command: Sequence[str] = (),
    path: str = "",
    opened: Opened = Opened(),
) -> Box | None:
    """Build the box for a choice; None when there is to be none.

    `command` and the agent's PATH tell which programs must be visible. SpawnError says what is
    missing, PlantedPointerError that the workspace was tampered with.
    """
    engine = choice.engine
    if engine is None:
        return None
    workspace = place.workspace.resolve()
    if choice.level != "container":
        return Box.open(workspace, program=engine.program, shield=engine.shield)
    _check_mailbox(place, workspace)
    git = git_paths(workspace, place.common_dir) if place.common_dir else GitPaths()
    objects = readable_objects(place.objects) if place.objects else ()
    home = place.home.resolve()
    others = worktrees_dir.around(workspace)
    hidden = (home, place.state.resolve(), *((others,) if others else ()), *git.hidden)
    programs: tuple[Path, ...] = ()
    masked: tuple[Path, ...] = ()
    if engine.engine.shows_system:
        programs = (*surroundings.own_programs(), *surroundings.interpreters(path, home))
        if command:
            programs += surroundings.program_paths(command[0], workspace, path, home)
        hidden += surroundings.secret_folders()
        masked = surroundings.secret_files()
    summary = (place.summary,) if place.summary and place.summary.is_file() else ()
    return Box(
        workspace,
        network=choice.network,
        readable=(
            *(*programs, *git.readable, *objects),
            *(*opened.readable, *summary, *place.fixed),
        ),
        writable=(*git.writable, *opened.writable, *((place.config,) if place.config else ())),
        login=_login(opened.login, home),
        # What does not exist needs no hiding, and could not be made where all is read-only.
        hidden=tuple(path for path in hidden if path.is_dir()),
        masked=masked,
        image=choice.image,
        engine=engine.engine,
        program=engine.program,
        options=engine.options,
        shield=engine.shield,
    )


def _check_mailbox(place: Place, workspace: Path) -> None:
    if place.mailbox and not place.mailbox.resolve().is_relative_to(workspace):
        raise IsolationError(
            f"{place.mailbox} lies outside of the workspace {workspace}, so an agent in a box "
            "could not write it. Keep one communications.json in each workspace."
        )


def _login(wanted: str, home: Path) -> tuple[Path, ...]:
    if not wanted:
        return ()
    if "/" not in wanted:
        found = surroundings.login_paths(wanted, home)
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
