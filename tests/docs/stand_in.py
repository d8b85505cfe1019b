"""A program that is found as `claude` and plays a story for each task.

It is called as claude is, prints what claude prints, and signals as any agent does; only its work
is written down beforehand.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BIN = Path(sys.executable).parent
PROGRAM = """\
#!/bin/sh
test "$1" = --version && echo '2.1.326 (Claude Code)' && exit 0
cat >/dev/null
exec loopwright-agent "{stories}/$LOOPWRIGHT_TASK_ID.json"
"""
USED = {"input_tokens": 21_000, "cache_read_input_tokens": 18_000, "output_tokens": 900}
TOLD = (
    {"type": "system", "subtype": "init", "session_id": "s1", "model": "claude-opus-5-5"},
    {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "session_id": "s1",
        "result": "Done.",
        "num_turns": 3,
        "total_cost_usd": 0.12,
        "usage": USED,
    },
)


def found_as_claude(folder: Path, stories: Mapping[str, object]) -> dict[str, str]:
    """Write the program and its stories; returns the environment in which it is found."""
    (folder / "stories").mkdir()
    for task, attempts in stories.items():
        (folder / "stories" / f"{task}.json").write_text(json.dumps({"attempts": attempts}))
    program = folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(stories=folder / "stories"))
    program.chmod(0o755)
    path = f"{program.parent}:{BIN}:{os.environ['PATH']}"
    home = folder / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n")
    # 4747 may be taken here.
    return {**os.environ, "HOME": str(home), "PATH": path, "LOOPWRIGHT_PORT": "0"}


def works(files: Mapping[str, str], summary: str) -> list[object]:
    """Return the steps of an attempt that commits these files and says that it is done."""
    written = [{"write": {"path": path, "text": text}} for path, text in files.items()]
    return [*written, {"commit": summary}, *_prints(), _signals("task_complete", summary=summary)]


def asks(question: str) -> list[object]:
    """Return the steps of an attempt that asks a person."""
    return [*_prints(), _signals("question", question=question)]


def _prints() -> list[object]:
    return [{"say": json.dumps(line)} for line in TOLD]


def _signals(kind: str, **fields: str) -> object:
    return {"breakpoint": {"type": kind, **fields}}
