"""What commands import: those that must start fast load nothing heavy. No clock is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.orchestrator.filled import Cli
    from tests.orchestrator.loopkit import World

HEAVY = frozenset(
    (
        *("pydantic", "asyncio", "jinja2", "git", "watchfiles", "httpx", "rich", "structlog"),
        *("importlib.metadata", "logging", "inspect", "dataclasses", "subprocess", "tomllib"),
    )
)
"""The first line may never come; the second costs more than these commands do."""
BARE = frozenset(("argparse", "typing", "pathlib", "json", "re", "sqlite3"))

LOOP = frozenset(
    ("lifecycle.loop", "lifecycle.engine.engine", "watchfiles", "jinja2", "httpx", "structlog")
)
"""What a loop is made of."""
OWN = ("lifecycle", "runtime", "ci", "communication", "templates", "orchestrator")
MOST_OF_AN_ORDER = 128
"""Modules of ours that an order to a live runner may load."""

LATE = frozenset(
    (
        *("cli/main.py", "cli/error_boundary.py", "cli/commands/ps.py", "cli/commands/mcp.py"),
        *("cli/commands/ps_table.py", "init.py"),
        *("terminal/options.py", "terminal/text.py", "wiring.py", "config/settings.py"),
        "doctor/engine.py",
    )
)
"""Where imports may stand in functions: what `signal`, `mcp`, `ps` and `--help` load, and what an
engine needs that few choose."""
MOST_LATE = 25


def imported(*args: str, cwd: Path, env: dict[str, str] | None = None) -> set[str]:
    """Run the command line in a fresh Python and return the modules it imported."""
    done = subprocess.run(
        [sys.executable, "-P", "-S", "-X", "importtime", "-c", _RUN, *args],
        cwd=cwd,
        env={"PYTHONPATH": _ROOT, "PATH": "/usr/bin:/bin", **(env or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


_PACKAGE = Path(__import__("orchestrator").__path__[0])
_ROOT = str(_PACKAGE.parent)
_RUN = "import sys; from orchestrator.cli.main import main; sys.exit(main(sys.argv[1:]))"


_INTERRUPTED = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == "orchestrator.cli.error_boundary":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
from orchestrator.cli.main import main
sys.argv = ["loopwright", "ps"]
sys.exit(main())
"""


def test_a_command_that_is_interrupted_while_it_loads_ends_without_a_word(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", _INTERRUPTED],
        cwd=tmp_path,
        env={"PYTHONPATH": _ROOT, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_help_and_version_import_next_to_nothing(tmp_path: Path) -> None:
    for option in ("--help", "--version"):
        assert not imported(option, cwd=tmp_path) & (HEAVY | BARE)


@pytest.mark.parametrize("options", [(), ("--all", "--json"), ("--ids",), ("--state", "waiting")])
def test_ps_imports_nothing_heavy(filled: Cli, options: tuple[str, ...]) -> None:
    names = imported("ps", *options, cwd=filled.repo)
    assert "lifecycle.store.plain_queries" in names
    assert not names & HEAVY


def test_an_order_to_a_live_runner_loads_neither_loop_nor_git(world: World) -> None:
    env = {"PYTHONPATH": _site()}
    agent = world.script("agent", {"attempts": {"1": [{"hang": {}}], "default": [{"hang": {}}]}})
    with world.live("run", "x", "--command", agent):
        world.comes_to("Working")
        for words in (("pause",), ("resume",), ("guide", "Be brief"), ("stop",)):
            names = imported(words[0], "T001", *words[1:], cwd=world.repo, env=env)
            assert "orchestrator.control.requests" in names
            assert not names & {*LOOP, "git", "rich", "runtime.git.git", "orchestrator.wiring"}
            own = {name for name in names if name.partition(".")[0] in OWN}
            assert len(own) <= MOST_OF_AN_ORDER, sorted(own)


def test_signal_imports_nothing_heavy(tmp_path: Path) -> None:
    env = {
        "LOOPWRIGHT_COMM_FILE": str(tmp_path / "communications.json"),
        "LOOPWRIGHT_AGENT_ID": "agent-T001",
        "LOOPWRIGHT_TASK_ID": "T001",
        "LOOPWRIGHT_SPAWN_ID": "s",
    }
    names = imported("signal", "task_complete", "--summary", "done", cwd=tmp_path, env=env)
    assert (tmp_path / "communications.json").exists()
    assert not names & HEAVY


@pytest.mark.parametrize("name", ["run", "up", "steer", "show", "init", "completion", "schema"])
def test_help_of_a_command_does_not_build_a_loop(tmp_path: Path, name: str) -> None:
    command = "pause" if name == "steer" else name
    names = imported(command, "--help", cwd=tmp_path, env={"PYTHONPATH": _site()})
    assert "orchestrator.terminal.options" in names
    assert not names & {*LOOP, "git", "rich"}


def test_plugins_of_other_packages_are_neither_looked_for_nor_loaded(tmp_path: Path) -> None:
    about, mark = tmp_path / "spy-1.dist-info", tmp_path / "mark"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: spy\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[pydantic]\nspy = spy:plugin\n")
    (tmp_path / "spy.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    program = Path(sys.executable).parent / "loopwright"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([program, "up", "--help"], env=env, check=True, capture_output=True)
    assert not mark.exists()


def test_imports_are_late_only_where_programs_must_start_at_once() -> None:
    rooms = [_PACKAGE / each for each in ("cli", "terminal", "config", "conformance", "doctor")]
    files = [*_PACKAGE.glob("*.py"), *(_PACKAGE / "proposals").glob("*.py")]
    files += [each for room in rooms for each in room.rglob("*.py")]
    late = {
        str(file.relative_to(_PACKAGE)): number
        for file in files
        if (number := file.read_text("utf-8").count("noqa: PLC0415"))
    }
    assert late.keys() <= LATE
    assert sum(late.values()) <= MOST_LATE


def _site() -> str:
    return ":".join((_ROOT, *(path for path in sys.path if path.endswith("site-packages"))))
