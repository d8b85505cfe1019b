"""An agent that shows where it was begun, and whether another one lives; run as a script.

    python hanging_agent.py FOLDER AGENT

It holds a lock in FOLDER. Where its file is not there, it commits it and fails; where FOLDER says
`hangs`, the next process hangs once on dirty work, until it is to `fail`; else it is done.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

LINGERS = 5
"""Seconds for which it would live on once it is done: it is stopped before."""


def act(folder: Path, agent: str) -> int:
    """Be the agent."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            (folder / "overlaps").write_text("two agents were alive at once")
        _note(folder / "starts", f"{time.time()} {os.getpid()} {Path.cwd()}")  # noqa: TID251  # its own
        return _work(folder, agent)


def _note(file: Path, line: str) -> None:
    with file.open("a") as lines:
        lines.write(line + "\n")


def _work(folder: Path, agent: str) -> int:
    hung = folder / "hung"
    if not Path("one.txt").exists():
        Path("one.txt").write_text("1")
        subprocess.run(("git", "add", "one.txt"), check=True)
        subprocess.run(("git", "commit", "-qm", "one"), check=True)
        _note(folder / "commits", f"{time.time()}")  # noqa: TID251  # as above
        return 1
    if (folder / "hangs").exists() and not hung.exists():
        Path("draft").write_text("half done")
        hung.write_text(str(os.getpid()))
        while not (folder / "fail").exists():
            time.sleep(0.05)
        Path("draft").unlink()
        return 1
    Path("draft").unlink(missing_ok=True)
    env = os.environ
    told = {"type": "task_complete", "summary": "done", "task_id": env["LOOPWRIGHT_TASK_ID"],
            "spawn_id": env["LOOPWRIGHT_SPAWN_ID"]}  # fmt: skip
    entry = {agent: {"lifecycle_state": "complete", "breakpoint": told}}
    file = Path(env["LOOPWRIGHT_COMM_FILE"])
    file.with_suffix(".new").write_text(json.dumps(entry))
    file.with_suffix(".new").rename(file)
    time.sleep(LINGERS)
    return 0


if __name__ == "__main__":
    sys.exit(act(Path(sys.argv[1]), sys.argv[2]))
