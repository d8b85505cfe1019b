"""The local provider at work on a real repository, with real commands."""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import TYPE_CHECKING, Any

from ci.local.provider import LocalCIProvider
from ci.ports import ProviderPorts
from tests.ci.contract import BASE
from tests.ci.ports import GitRepository, JsonDocuments, ShellCommands, git

if TYPE_CHECKING:
    from pathlib import Path

    from ci.events import CIEvent

CHECKS = {
    "green": "echo all is well",
    "red": "echo the sum is wrong; exit 3",
}


class LocalWorld:
    """A repository, the ports on it, and a provider that can be started again."""

    def __init__(self, tmp_path: Path, **settings: Any) -> None:
        self.root = tmp_path / "repo"
        self.folder = tmp_path / "state"
        self.gate = tmp_path / "gate"
        self.auto_merge_objection = settings.pop("auto_merge_objection", None)
        self.settings = {"test_command": "exec sh check.sh", **settings}
        self.repository = GitRepository(self.root)
        self.commands = ShellCommands()
        self.documents = JsonDocuments()
        self.events: list[CIEvent] = []
        self.provider = self.new_provider()
        self._clock = itertools.count(1_000.0)
        self.root.mkdir(parents=True)
        os.mkfifo(self.gate)
        self._gate = os.open(self.gate, os.O_RDWR)
        self._git("init", "-q", "-b", BASE)
        self._write("green", "base")
        self._git("add", ".")
        self._git("commit", "-q", "-m", "begin")
        self._git("checkout", "-q", "--detach")

    def new_provider(self) -> LocalCIProvider:
        provider = LocalCIProvider(self.root, **self.settings)
        provider.subscribe(self.events.append)
        return provider

    def provider_ports(self) -> ProviderPorts:
        return ProviderPorts(
            repository=self.repository,
            commands=self.commands,
            documents=self.documents,
            now=lambda: next(self._clock),
            folder=self.folder,
            auto_merge_objection=self.auto_merge_objection,
        )

    async def start(self) -> None:
        self.surroundings_in_use = self.provider_ports()
        self.provider.bind(self.surroundings_in_use)
        await self.provider.start()

    async def close(self) -> None:
        await self.provider.aclose()
        os.close(self._gate)

    async def restart(self) -> None:
        await self.provider.aclose()
        self.provider = self.new_provider()
        await self.start()

    async def commit(
        self, branch: str, *, outcome: str = "green", shared: str | None = None
    ) -> str:
        return await asyncio.to_thread(self._commit, branch, outcome, shared)

    def _commit(self, branch: str, outcome: str, shared: str | None) -> str:
        known = git(self.root, "rev-parse", "-q", "--verify", f"refs/heads/{branch}")[0] == 0
        self._git("checkout", "-q", "-f", *((branch,) if known else ("-b", branch, BASE)))
        self._write(outcome, shared)
        self._git("add", ".")
        self._git("commit", "-q", "--allow-empty", "-m", f"{branch}: {outcome}")
        self._git("checkout", "-q", "--detach")
        return self._git("rev-parse", "HEAD")

    async def release(self) -> None:
        os.write(self._gate, b"\n" * 64)

    async def merged_text(self) -> str:
        return self._git("show", f"{BASE}:shared.txt")

    def _write(self, outcome: str, shared: str | None) -> None:
        # One process (see `exec` above): a killed build is gone once it is waited for.
        held = f"read line < '{self.gate}'"
        (self.root / "check.sh").write_text(CHECKS.get(outcome, held) + "\n")
        if shared is not None:
            (self.root / "shared.txt").write_text(shared)

    def _git(self, *args: str) -> str:
        code, out = git(self.root, *args)
        assert code == 0, (args, out)
        return out.decode().strip()
