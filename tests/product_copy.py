"""A copy of the product in a folder of its own, to be changed and then used from outside.

Tests that something is added by exactly the files that CONTRIBUTING names use it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lifecycle", "runtime", "ci", "communication", "templates", "orchestrator")
FILL = """
import asyncio, sys
from pathlib import Path
from lifecycle.machine import states as st
from lifecycle.record import AgentLifecycle
from lifecycle.store.sqlite.store import SqliteStore

async def fill(path, kind, agent_id):
    async with await SqliteStore.open(path) as store:
        work = getattr(st, kind)()
        record = AgentLifecycle(agent_id=agent_id, task_id="T1", task="x", work=work)
        record.facts["branch"] = "agent/a"
        record.derive()
        await store.create(record)

asyncio.run(fill(Path(sys.argv[1]), *sys.argv[2:]))
"""


class ProductCopy:
    """The product to be changed, with a git repository to use it on."""

    def __init__(self, folder: Path) -> None:
        self.site, self.repo = folder / "site", folder / "repo"
        self.env: dict[str, str] = {}
        """Variables for all that is run, over those of the test."""
        for package in PACKAGES:
            # What is compiled comes along, and is compiled again where its source is changed.
            shutil.copytree(ROOT / package, self.site / package)
        self.git("init", "-q", "-b", "main", str(self.repo), cwd=folder)

    # --- changing it --------------------------------------------------------------------------

    def add(self, name: str, text: str) -> None:
        """Write a new file of the product."""
        path = self.site / name
        assert not path.exists(), f"{name} is there already; adapt this test"
        path.write_text(text, "utf-8")

    def append(self, module: ModuleType, more: str) -> None:
        """Put text at the end of a module."""
        path = self._of(module)
        path.write_text(f"{path.read_text('utf-8')}\n{more}\n", "utf-8")

    def insert(self, module: ModuleType, after: str, more: str) -> None:
        """Put text after one that is there once."""
        path = self._of(module)
        text = path.read_text("utf-8")
        assert text.count(after) == 1, f"{path} has changed; adapt this test"
        path.write_text(text.replace(after, f"{after}{more}"), "utf-8")

    def _of(self, module: ModuleType) -> Path:
        return self.site / Path(str(module.__file__)).relative_to(ROOT)

    # --- using it -----------------------------------------------------------------------------

    @property
    def database(self) -> Path:
        """Where the records of the repository are."""
        return self.repo / ".loopwright" / "state.db"

    def git(self, *words: str, cwd: Path | None = None) -> None:
        """Run git, in the repository where nothing else is said."""
        identity = ("-c", "user.name=Test", "-c", "user.email=test@localhost")
        subprocess.run(("git", *identity, *words), cwd=cwd or self.repo, check=True)

    def runs(self, *words: str, code: int = 0) -> str:
        """Run Python on the changed product; return what it prints."""
        done = subprocess.run(
            (sys.executable, "-P", *words),
            cwd=self.repo,
            env={**os.environ, "PYTHONPATH": str(self.site), **self.env},
            check=False,
            capture_output=True,
            text=True,
            timeout=55,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout

    def command(self, *words: str, code: int = 0) -> str:
        """Run a command of the changed product."""
        return self.runs("-m", "orchestrator.cli.main", *words, code=code)

    def fill(self, kind: str, agent_id: str = "a") -> None:
        """Record a lifecycle in this state."""
        self.database.parent.mkdir(mode=0o700, exist_ok=True)
        self.runs("-c", FILL, str(self.database), kind, agent_id)
