"""Where the runs of one subject take place: a folder and a git repository for each.

Owns what is on disk, how the adapter's launch is planned, and the runs that several cases share.
It must not judge.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.conformance import prompts, trial
from orchestrator.control.agents import look
from orchestrator.errors import OrchestratorError
from runtime.agents.adapter import McpServer, plan
from runtime.errors import RuntimeFault
from runtime.git.git import Git

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orchestrator.conformance.subject import AgentUnderTest
    from orchestrator.conformance.trial import Ran
    from orchestrator.control.agents import Installed
    from runtime.agents.adapter import Launch

AGENT = "agent-conformance"
UNLISTED = "LOOPWRIGHT_CONFORMANCE_UNLISTED"
"""A variable of the runner that is not passed on."""
TURN = 1
_WHO = ("-c", "user.name=Loopwright", "-c", "user.email=conformance@localhost")


@dataclass(frozen=True, slots=True)
class TrialFolders:
    """The folders of one run, and who it is."""

    attempt: int
    folder: Path
    spawn_id: str

    @property
    def work(self) -> Path:
        """Its working folder, a git repository."""
        return self.folder / "work"

    @property
    def config(self) -> Path:
        """The private folder for its settings."""
        return self.folder / "config"

    @property
    def mailbox(self) -> Path:
        """Where it signals."""
        return self.work / "communications.json"


class Workbench:
    """Runs the subject, each time in a fresh place."""

    def __init__(self, subject: AgentUnderTest, folder: Path) -> None:
        self.subject = subject
        self.canary = f"canary-{secrets.token_hex(8)}"
        """What must not reach the program."""
        self.runs: list[Ran] = []
        self._folder = folder
        self._installed: Installed | None = None
        self._turn: tuple[TrialFolders, Launch, Ran] | None = None

    async def installed(self) -> Installed:
        """Ask the program for its version, once."""
        if self._installed is None:
            adapter = self.subject.adapter
            environ = self.subject.environ
            [self._installed] = await look([adapter], environ, self._folder)
        return self._installed

    async def version(self) -> str:
        """Return the program's version, '' where it is not known."""
        return (await self.installed()).version if self.subject.adapter.programs else ""

    async def turn(self) -> tuple[TrialFolders, Launch, Ran]:
        """Return the plain turn, which several cases look at."""
        if self._turn is None:
            place = await self.place(TURN)
            launch = self.launch(place)
            self._turn = place, launch, await self.run(place, prompts.READY, launch=launch)
        return self._turn

    async def place(self, attempt: int) -> TrialFolders:
        """Make the folders of a run, with a git repository of one commit."""
        folder = self._folder / f"{attempt:02}"
        place = TrialFolders(attempt, folder, f"conformance-{attempt:02}-{self.canary[-8:]}")
        folder.mkdir(mode=0o700)
        for each in (place.work, place.config):
            each.mkdir(mode=0o700)
        await self._git(place.work, "init", "-q")
        await self._git(place.work, *_WHO, "commit", "-q", "--allow-empty", "-m", "Begin")
        return place

    def launch(
        self, place: TrialFolders, *, unattended: bool = True, passes: tuple[str, ...] = ()
    ) -> Launch:
        """Plan how the program is started there; SpawnError says what does not fit."""
        request = replace(
            self.subject.request,
            config_folder=str(place.config),
            private_config=self.subject.private,
            unattended=unattended,
            as_root=os.geteuid() == 0,
            passes=(*self.subject.request.passes, *passes),
        )
        return plan(self.subject.adapter, request)

    def all_files(self, place: TrialFolders) -> tuple[str, ...]:
        """Name every file that the adapter may want written, also for a tool server."""
        adapter, request = self.subject.adapter, self.subject.request
        if adapter.files is None:
            return ()
        server = McpServer("loopwright", ("true",)) if adapter.mcp is not None else None
        wanted = (
            replace(request, config_folder=str(place.config), private_config=private, mcp=each)
            for private in (False, True)
            for each in (None, server)
        )
        found = (file.path for request in wanted for file in plan(adapter, request).files)
        return tuple(dict.fromkeys(found))

    async def run(  # noqa: PLR0913  # what differs between cases
        self,
        place: TrialFolders,
        prompt: str,
        *,
        launch: Launch | None = None,
        variables: Mapping[str, str] | None = None,
        until: Callable[[], bool] | None = None,
        idle: bool = False,
    ) -> Ran:
        """Run the program there to its end; `variables` are the runner's, beside its own."""
        launch = self.launch(place) if launch is None else launch
        for file in launch.files:
            _write(place.config, Path(file.path), file.text)
        source = {**self.subject.environ, UNLISTED: self.canary}
        source |= {name: f"{self.canary}-{name}" for name in launch.forbids}
        order = trial.Order(
            attempt=place.attempt,
            prompt=prompt.encode(),
            work=place.work,
            spawn_id=place.spawn_id,
            launch=launch,
            source=source | dict(variables or {}),
            own=_own(place),
            log=place.folder / "log",
            pipe=place.folder / "prompt",
            until=until,
            idle=idle,
        )
        self.runs.append(await trial.run(self.subject, order))
        return self.runs[-1]

    async def _git(self, folder: Path, *words: str) -> None:
        try:
            await Git().run(*words, cwd=folder)
        except RuntimeFault as problem:
            raise OrchestratorError(
                f"git could not make a repository in {folder}: {problem}; `loopwright doctor` "
                "checks git and the folder for temporary files"
            ) from problem


def _own(place: TrialFolders) -> dict[str, str]:
    summary = place.folder / "summary.md"
    summary.write_text("This is the first attempt.\n", "utf-8")
    return {
        "LOOPWRIGHT_AGENT_ID": AGENT,
        "LOOPWRIGHT_TASK_ID": prompts.TASK,
        "LOOPWRIGHT_ATTEMPT": str(place.attempt),
        "LOOPWRIGHT_SPAWN_ID": place.spawn_id,
        "LOOPWRIGHT_COMM_FILE": str(place.mailbox),
        "LOOPWRIGHT_SUMMARY_FILE": str(summary),
    }


def _write(config: Path, path: Path, text: str) -> None:
    """Write a file for its owner only; one outside of the private folder is left out."""
    if not is_inside(config, path):
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)


def is_inside(folder: Path, path: Path) -> bool:
    """Tell whether a file stays in the folder."""
    whole = Path(os.path.normpath(path))
    return whole.is_relative_to(folder) and whole != folder
