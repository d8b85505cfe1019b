"""No benchmark: how many of our functions two journeys take, and in how many modules.

first: `loopwright run` until its first agent is started. next: the agent writes `blocked`, a person
types `loopwright unblock`, and the next agent is started with its summary. Set-up, judging and the
watchdog are not counted. Nor is what nobody reads on the way: what runs while a module is imported
(it fills tables), lambdas and comprehensions (a part of the function around them), and generated
code (dataclasses, templates). Properties and constructors of ours are counted. Each function once.

python -m bench.journeys [--functions JOURNEY]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from inspect import CO_OPTIMIZED
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("ci", "communication", "lifecycle", "orchestrator", "runtime", "templates")
ASIDE = (
    "lifecycle/judging/", "lifecycle/setup/", "runtime/code_origin/", "runtime/setup/",
    "runtime/processes/watchdog/",
)  # fmt: skip
AGENT_ID = "agent-T001"
BLOCKS = (
    "[ $LOOPWRIGHT_ATTEMPT -gt 1 ] || loopwright signal blocked --blocked-on keys --reason waits"
)
JOURNEYS = ("first", "next")
PATIENCE_S = 60.0
IMPORT = "<frozen importlib._bootstrap>"


class Trace:
    """Notes each function of ours that is called, until an agent is started."""

    def __init__(self) -> None:
        self.found: dict[str, set[tuple[str, str]]] = {}
        self._codes: set[CodeType] = set()

    def begin(self) -> None:
        """Look at every call of this thread from now on."""
        sys.addaudithook(self._heard)
        sys.setprofile(self._called)

    def _called(self, frame: FrameType, event: str, given: object) -> None:
        del given
        if event == "call" and frame.f_code not in self._codes and not _imports(frame):
            self._codes.add(frame.f_code)

    def _heard(self, event: str, given: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen" and "LOOPWRIGHT_SPAWN_ID" in _names(given[3]):
            codes, self._codes = self._codes, set()
            if len(self.found) < len(JOURNEYS):
                self.found[JOURNEYS[len(self.found)]] = set(_ours(codes))


def _imports(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == IMPORT:
            return True
        frame = frame.f_back
    return False


def _names(environment: Mapping[Any, Any] | None) -> set[str]:
    return {os.fsdecode(name) for name in environment or {}}


def _ours(codes: set[CodeType]) -> Iterator[tuple[str, str]]:
    for code in codes:
        path = Path(code.co_filename)
        named = code.co_flags & CO_OPTIMIZED and not code.co_name.startswith("<")
        if not named or path.suffix != ".py" or not path.is_relative_to(ROOT):
            continue
        module = path.relative_to(ROOT).as_posix()
        if module.startswith(PACKAGES) and not module.startswith(ASIDE):
            yield module, code.co_qualname


def traced() -> dict[str, set[tuple[str, str]]]:
    """Take both journeys in this process; return the functions of each, with their modules."""
    from orchestrator.cli.main import main  # noqa: PLC0415  # its import belongs to the journey

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        os.chdir(_repository(Path(folder) / "repository"))
        trace = Trace()
        person = threading.Thread(target=_unblock, args=(trace,), daemon=True)
        person.start()
        try:
            trace.begin()
            main(["run", "x", "--command", f"sh -c '{BLOCKS}'", "--stay", "--plain"])
        finally:
            sys.setprofile(None)
            os.chdir(before)
    return trace.found


def _repository(folder: Path) -> Path:
    folder.mkdir()
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    identity = ("-c", "user.name=Bench", "-c", "user.email=bench@localhost")
    for words in (
        ("init", "--quiet", "--initial-branch=main"),
        (*identity, "commit", "--quiet", "--allow-empty", "--message=Begin"),
    ):
        subprocess.run(("git", *words), cwd=folder, check=True)
    return folder


def _unblock(trace: Trace) -> None:
    deadline = time.monotonic() + PATIENCE_S
    command = (sys.executable, "-m", "orchestrator.cli.main", "unblock", AGENT_ID)
    while len(trace.found) < len(JOURNEYS) and time.monotonic() < deadline:
        time.sleep(0.2)
        subprocess.run(command, capture_output=True, check=False)
    os.kill(os.getpid(), signal.SIGINT)


def main() -> int:
    """Print the figures, or with --functions each function of one journey."""
    parser = argparse.ArgumentParser(prog="python -m bench.journeys", description=__doc__)
    parser.add_argument("--functions", choices=JOURNEYS, help="list what a journey takes")
    listed = parser.parse_args().functions
    found = traced()
    if listed:
        for module, name in sorted(found[listed]):
            print(f"{module}: {name}")
        return 0
    for name, calls in found.items():
        modules = Counter(module for module, _ in calls)
        packages = Counter(module.partition("/")[0] for module, _ in calls)
        parts = ", ".join(f"{package} {count}" for package, count in packages.most_common())
        print(f"{name}: {len(calls)} functions in {len(modules)} modules ({parts})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
