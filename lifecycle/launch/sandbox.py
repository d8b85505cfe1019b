"""The sandbox of an agent and how much of the machine it may use, as the settings say.

Owns the choice and its cache; enforces nothing itself. What cannot be given here is refused with
the reason, or, where the settings allow it, given weaker and reported.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from runtime.git.git import Git, inspect_repository
from runtime.isolation.probe import choose, probe
from runtime.isolation.sandbox import SandboxEngine
from runtime.isolation.workspace_sandbox import OpenedPaths, SandboxPaths, around
from runtime.limits import Limits
from runtime.processes.limit_shell import refusals
from runtime.workspaces import worktrees_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lifecycle.settings import Network, Settings
    from runtime.commands import CommandResult, CommandRunner
    from runtime.isolation.probe import SandboxChoice
    from runtime.isolation.sandbox import Sandbox


class SandboxPlan(NamedTuple):
    """What one attempt is started with."""

    limits: Limits
    sandbox: Sandbox | None
    env: dict[str, str]
    """What an agent needs to be told because it cannot see it from inside."""
    text: str = ""
    """The same in words, for the record."""
    weaker: tuple[str, ...] = ()
    """What was asked for and is not given, and why."""


class SandboxRequest(NamedTuple):
    """What must be reachable from inside."""

    folder: Path
    command: Sequence[str]
    in_git: bool
    """The folder is a worktree of the repository."""
    judges: bool = False
    """The folder is a judging checkout, whose git reads the repository's objects."""
    summary: Path | None = None
    mailbox: Path | None = None
    programs: Path | None = None
    """A folder of ours on its PATH."""
    path: str = ""
    """The command's own PATH, where it has another than the runner's."""
    config: Path | None = None
    """Private settings of the agent's program; it may write there too."""
    fixed: tuple[Path, ...] = ()
    """What lies in the folder and cannot be written from inside."""
    read_only: bool = False
    """Nothing of the repository, its workspaces and its records can be written from inside."""


class SandboxPlanner:
    """Plans the sandboxes of one repository's agents."""

    def __init__(
        self, repo: Path, state: Path, *, home: Path, path: str, report: Callable[[str], None]
    ) -> None:
        self._repo = repo
        self._state = state
        self._home = home
        self._path = path
        self._report = report
        self._choices: dict[tuple[object, ...], SandboxChoice] = {}
        self._author: dict[str, str] | None = None
        self._bare: tuple[Settings, SandboxPlan] | None = None
        """What the latest settings mean for an agent without a sandbox."""

    async def plan(self, settings: Settings, request: SandboxRequest) -> SandboxPlan:
        """Return the sandbox of a command; SpawnError says what cannot be given here."""
        if self._bare is None or self._bare[0] is not settings:
            limits = limits_of(settings)
            self._bare = settings, SandboxPlan(limits, None, {}, in_words(limits))
        if not (wants_sandbox(settings) or request.read_only):
            return self._bare[1]
        limits = self._bare[1].limits
        # Probing starts programs and waits for them, and reading git's pointers reads the disk.
        sandbox = await asyncio.to_thread(self._sandbox, settings, request)
        in_a_sandbox = settings.isolation == "container"
        env = await self.identity() if in_a_sandbox else {}
        weaker = self._choice(settings).weaker
        told = in_words(limits, sandbox)
        if request.read_only and sandbox is not None:
            told += ", read-only"
        return SandboxPlan(limits, sandbox, env, told, (weaker,) if weaker else ())

    def _sandbox(self, settings: Settings, request: SandboxRequest) -> Sandbox | None:
        place = SandboxPaths(
            workspace=request.folder,
            state=self._state,
            home=self._home,
            common_dir=inspect_repository(self._repo).common_dir if request.in_git else None,
            objects=(
                inspect_repository(self._repo).common_dir / "objects" if request.judges else None
            ),
            summary=request.summary,
            mailbox=request.mailbox,
            config=request.config,
            fixed=request.fixed,
            guarded=self._guarded(request) if request.read_only else (),
        )
        opened = OpenedPaths(
            readable=(
                *self._paths(settings.sandbox_readable),
                *((request.programs,) if request.programs else ()),
            ),
            writable=self._paths(settings.sandbox_writable),
            login=settings.sandbox_login,
        )
        return around(
            self._choice_for(settings, request),
            place,
            command=request.command,
            path=request.path or self._path,
            opened=opened,
        )

    def _guarded(self, request: SandboxRequest) -> tuple[Path, ...]:
        repository = inspect_repository(self._repo)
        others = worktrees_dir.around(request.folder.resolve())
        folders = (self._repo, repository.common_dir, self._state, others or request.folder)
        return tuple(dict.fromkeys(each.resolve() for each in folders))

    def _choice_for(self, settings: Settings, request: SandboxRequest) -> SandboxChoice:
        """Choose what makes it; a reader gets a sandbox also where agents need none, if it can."""
        choice = self._choice(settings)
        if choice.engine is not None or not request.read_only:
            return choice
        found = probe(SandboxEngine.BUBBLEWRAP)
        if not found.works:
            self._report(
                f"{found.reason}, so what a reviewer writes in its checkout is only found out "
                f"afterwards; {found.remedy}"
            )
            return choice
        return replace(choice, engine=found)

    def _choice(self, settings: Settings) -> SandboxChoice:
        key = (
            settings.isolation, settings.network, settings.sandbox_engine, settings.sandbox_image,
            settings.allow_weaker,
        )  # fmt: skip
        if key not in self._choices:
            choice = self._choices[key] = chosen(settings)
            if choice.weaker:
                self._report(choice.weaker)
        return self._choices[key]

    def _paths(self, named: Sequence[str]) -> tuple[Path, ...]:
        return tuple(
            self._home / each[2:] if each.startswith("~/") else self._repo / each for each in named
        )

    async def identity(self) -> dict[str, str]:
        """Return variables that tell git who commits, where a person's own settings are hidden."""
        if self._author is None:
            said = await Git().run("var", "GIT_AUTHOR_IDENT", cwd=self._repo, check=False)
            name, _, rest = said.text.partition(" <")
            email = rest.partition(">")[0]
            whom = {"NAME": name, "EMAIL": email} if name and email else {}
            self._author = {
                f"GIT_{role}_{part}": value
                for role in ("AUTHOR", "COMMITTER")
                for part, value in whom.items()
            }
        return self._author


class SandboxedCommands:
    """Runs the task's commands in the sandbox of its agents: what they test, an agent wrote."""

    def __init__(
        self, commands: CommandRunner, sandbox: SandboxPlanner, settings: Callable[[], Settings]
    ) -> None:
        self._commands = commands
        self._sandbox = sandbox
        self._settings = settings

    def going_by(self, settings: Callable[[], Settings]) -> SandboxedCommands:
        """Return the same for who goes by other settings."""
        return SandboxedCommands(self._commands, self._sandbox, settings)

    async def run(  # noqa: PLR0913  # all by name
        self,
        command: str,
        *,
        cwd: Path,
        log: Path,
        timeout: float,  # noqa: ASYNC109  # the limit is the process tree's, not the caller's
        env: Mapping[str, str] | None = None,
        mark: str,
        network: Network | None = None,
        fixed: tuple[Path, ...] = (),
        made: tuple[str, ...] | None = (),
    ) -> CommandResult:
        """Run to the end and leave nothing behind; `network` instead of what agents have."""
        settings = self._settings()
        if network is not None and network != settings.network:
            settings = settings.model_copy(update={"network": network})
        git = cwd / ".git"
        request = SandboxRequest(
            cwd, ("/bin/sh",), in_git=git.is_file(), judges=git.is_dir(), fixed=fixed
        )
        confined = await self._sandbox.plan(settings, request)
        return await self._commands.run(
            command,
            cwd=cwd,
            log=log,
            timeout=timeout,
            env={"GIT_CEILING_DIRECTORIES": str(cwd.parent), **confined.env, **(env or {})},
            mark=mark,
            limits=confined.limits,
            sandbox=confined.sandbox,
            allow_weaker=settings.allow_weaker,
            made=made,
        )


def in_words(limits: Limits, sandbox: Sandbox | None = None) -> str:
    """Describe the sandbox and the limits of an attempt in words."""
    level = "container" if sandbox is not None and not sandbox.whole else "process"
    by = f" by {sandbox.engine}" if sandbox is not None else ""
    network = ", no network" if sandbox is not None and not sandbox.network else ""
    named = [limits.text(name) for name in limits.given()]
    return f"level {level}{by}{network}" + "".join(f", {each}" for each in named)


def wants_sandbox(settings: Settings) -> bool:
    """Tell whether an agent gets anything beyond a session of its own."""
    return settings.isolation == "container" or settings.network == "none"


def limits_of(settings: Settings) -> Limits:
    """Return what of the machine an agent may use."""
    return Limits(
        memory_mb=settings.memory_limit_mb,
        cpu_percent=settings.cpu_limit_percent,
        processes=settings.process_limit,
        open_files=settings.open_file_limit,
    )


def chosen(settings: Settings) -> SandboxChoice:
    """Choose what makes the sandbox; waits for short programs. SpawnError if nothing can."""
    return choose(
        settings.isolation,
        network=settings.network == "allow",
        engine=SandboxEngine(settings.sandbox_engine) if settings.sandbox_engine else None,
        image=settings.sandbox_image,
        allow_weaker=settings.allow_weaker,
    )


def check(settings: Settings) -> tuple[str, ...]:
    """Refuse at once what this machine cannot give, before anything is started or recorded.

    Returns what is given weaker than asked; SpawnError names the reason and what would help.
    """
    weaker: list[str] = []
    if wants_sandbox(settings):
        weaker += filter(None, [chosen(settings).weaker])
    limits = limits_of(settings)
    if limits:
        weaker += refusals(limits, allow_weaker=settings.allow_weaker)
    return tuple(weaker)
