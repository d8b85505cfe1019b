"""An agent that shows where it was begun, and whether another one lives; run as a script.

    python lock_agent.py FOLDER

It holds a lock in FOLDER: its first process fails after a commit, its second hangs on dirty work,
its third is done.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

AGENT = "agent-T001"


def act(folder: Path) -> int:
    """Be the agent."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            (folder / "overlaps").write_text("two agents were alive at once")
        with (folder / "starts").open("a") as starts:
            starts.write(f"{time.time()} {Path.cwd()}\n")  # noqa: TID251  # the test's own clock
        return _work(len((folder / "starts").read_text().splitlines()))


def _work(start: int) -> int:
    if start == 1:
        Path("one.txt").write_text("1")
        subprocess.run(("git", "add", "one.txt"), check=True)
        subprocess.run(("git", "commit", "-qm", "one"), check=True)
        return 1
    if start == 2:
        Path("draft").write_text("half done")
        time.sleep(600)
    env = os.environ
    told = {"type": "task_complete", "summary": "done", "task_id": env["LOOPWRIGHT_TASK_ID"],
            "spawn_id": env["LOOPWRIGHT_SPAWN_ID"]}  # fmt: skip
    entry = {AGENT: {"lifecycle_state": "complete", "breakpoint": told}}
    file = Path(env["LOOPWRIGHT_COMM_FILE"])
    file.with_suffix(".new").write_text(json.dumps(entry))
    file.with_suffix(".new").rename(file)
    return 0


if __name__ == "__main__":
    sys.exit(act(Path(sys.argv[1])))
