"""A scripted model on loopback, in a process of its own, and how real programs ask it.

python -m bench.model PROGRAM...     # tells how to start each, serves until its input ends
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.models.clis import order
from tests.models.script import Say
from tests.models.server import ModelServer
from tests.tools.agents.installed import FOLDER, search_path
from tests.tools.npm_tools import CACHE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

HOW = "make agents"
MODELS = {"codex": "gpt-5.1-codex", "gemini": "gemini-2.5-pro", "opencode": "scripted/m1"}


@dataclass(frozen=True, slots=True)
class Ready:
    """What a program needs to ask the scripted model."""

    name: str
    adapter: str
    """NAME or NAME:MODEL."""
    env: Mapping[str, str]
    files: Mapping[str, str]
    """Texts to write below the home."""
    search_path: str

    def at_home(self, home: Path) -> dict[str, str]:
        """Furnish a home; return the variables of a runner that is to start the program."""
        for path, text in self.files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)
        own = {"HOME": str(home), "PATH": self.search_path, "LANG": "C.UTF-8"}
        return own | dict(self.env)


@contextmanager
def scripted(*names: str) -> Iterator[tuple[Ready, ...]]:
    """Serve them a model that always says the same; () where the programs are not installed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.model", *names],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        if process.stdout is None:
            raise RuntimeError("the model has no output")
        told = json.loads(process.stdout.readline())
        yield tuple(Ready(**each) for each in told)
    finally:
        process.communicate()


def main() -> None:
    """Serve until the input ends."""
    if not _installed():
        print("[]", flush=True)
        return
    with ModelServer() as server:
        ready = []
        for name in sys.argv[1:]:
            played = server.play(again=Say("Done."))
            wanted = order(name, played.url, played.key)
            files = dict(wanted.files)
            if name == "codex":
                lines = [word for word in wanted.argv if word.startswith("model_provider")]
                path = ".codex/config.toml"
                files[path] = "\n".join([*lines, files[path]])
            model = MODELS.get(name)
            ready.append(
                {
                    "name": name,
                    "adapter": f"{name}:{model}" if model else name,
                    "env": dict(wanted.env),
                    "files": files,
                    "search_path": search_path(),
                }
            )
        print(json.dumps(ready), flush=True)
        sys.stdin.read()


def _installed() -> bool:
    """Look without installing, as that would take minutes and a registry."""
    return (CACHE / FOLDER).is_dir()


if __name__ == "__main__":
    main()
