"""One attempt to the next of `loopwright run` as shipped, against `ralph-tui --delay 0`.

Both run the same program as their agent, in a repository of 100 files. ralph-tui keeps no history
in git and looks at none; what ours does between two attempts stands in docs/why/performance.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.agent import gaps
from bench.measure import BURST, Options, Row, compared, script
from bench.world import world
from tests.tools.npm_tools import cached, npm

if TYPE_CHECKING:
    from bench.world import World

PACKAGES = ("ralph-tui@0.11.0", "bun@1.4.4")
LIVES_MS = 20
WARM_UP = 3
FILES = 100
PATIENCE = 120
SETTINGS = """\
max_retries = {attempts}
max_attempts = 1000
stuck_limit = 1000
retry_interval = 0.0
baseline = false
"""
STORY = {
    "id": "US-001",
    "title": "Do it",
    "description": "Do it",
    "acceptanceCriteria": ["It is done"],
    "priority": 1,
    "passes": False,
    "dependsOn": [],
}
PRD = {"name": "it", "description": "Do it", "branchName": "main", "userStories": [STORY]}
PEER = (
    *("ralph-tui", "run", "--prd", "prd.json", "--agent", "claude", "--headless", "--no-setup"),
    *("--no-notify", "--serial", "--delay", "0", "--iterations", str(BURST + WARM_UP + 1)),
)


def _peer(folder: Path) -> None:
    npm(folder, "init", "--yes")
    npm(folder, "install", "--no-audit", "--no-fund", "--no-progress", *PACKAGES)


def _agent(made: World, stamps: Path) -> Path:
    """Return a program that both take for an agent; ralph-tui only knows its own by name."""
    program, stamped, _, _, lives = made.agent.exits(stamps, after_ms=LIVES_MS)
    line = shlex.join((program, stamped, "exit", "0", lives))
    claude = made.folder() / "claude"
    claude.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec echo "2.1.0"\nexec {line}\n')
    claude.chmod(0o755)
    return claude


async def _gaps(command: tuple[str, ...], repo: Path, stamps: Path, path: str) -> list[float]:
    env = {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}", "HOME": str(repo)}
    done = await asyncio.to_thread(
        subprocess.run,
        command,
        cwd=repo,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    found = gaps(stamps)[WARM_UP:][:BURST]
    if len(found) != BURST:
        raise RuntimeError(f"{len(found)} gaps instead of {BURST}: {done.stdout}{done.stderr}")
    return found


async def _ours(made: World) -> list[float]:
    repo, stamps = made.repository(FILES), made.fresh("stamps")
    (repo / "loopwright.toml").write_text(SETTINGS.format(attempts=BURST + WARM_UP))
    loopwright = str(Path(sys.executable).with_name("loopwright"))
    command = (loopwright, "run", "Do it", "--command", str(_agent(made, stamps)))
    return await _gaps(command, repo, stamps, str(Path(loopwright).parent))


async def _theirs(made: World, programs: Path) -> list[float]:
    repo, stamps = made.repository(FILES), made.fresh("stamps")
    (repo / "prd.json").write_text(json.dumps(PRD))
    path = f"{_agent(made, stamps).parent}{os.pathsep}{programs}"
    return await _gaps(PEER, repo, stamps, path)


async def measure(options: Options) -> list[Row]:
    """Measure both in turns."""
    programs = cached(f"peer-{'-'.join(PACKAGES)}", _peer) / "node_modules" / ".bin"
    with world() as made:
        row = await compared(
            lambda: _ours(made),
            lambda: _theirs(made, programs),
            options.rounds(),
            what="one attempt to the next of `loopwright run`, 100 files; agents of 20 ms",
            against="ralph-tui --delay 0",
            at_most=1.0,
            note=made.note,
        )
        return [row]


if __name__ == "__main__":
    script(measure)
