"""What must work in an environment that holds an installed package and nothing else.

Owns what is tried there, as a user types it; `deploy.release.packages` makes the environment.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PATIENCE = 120.0
"""Seconds for one command."""
TOKEN = "of-this-trial-0123456789"  # noqa: S105  # opens nothing but this
EXTRAS = ("github-app", "mcp", "notify", "otel", "temporal")
DONE = [{"write": {"path": "done.txt", "text": "done\n"}}, {"commit": "Work"},
        {"breakpoint": {"type": "task_complete", "summary": "done"}}]  # fmt: skip
PLAN = """
[[tasks]]
id = "first"
title = "First"
description = "Do it."

[[tasks]]
id = "second"
title = "Second"
description = "Do it, too."
dependencies = ["first"]
"""
TEMPORAL = '\nengine = "temporal"\ntemporal_address = "127.0.0.1:1"\n'
NOTIFY = '\n[[notify]]\nname = "chat"\nurl = "json://127.0.0.1:1"\n'
APP = """
providers = ["github"]
forge_url = "https://127.0.0.1:1"
forge_repo = "team/project"
github_app_id = "1"
github_app_key = "app.pem"
"""


class TrialError(Exception):
    """Something did not work as it has to."""


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment, and a folder of its own for everything that is tried in it."""

    environment: Path
    folder: Path

    @property
    def variables(self) -> dict[str, str]:
        """The variables of a new user: a home that is empty, and nothing of this program's."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        plain = {name: os.environ[name] for name in ("LANG", "TZ", "TMPDIR") if name in os.environ}
        return plain | {
            "HOME": str(home),
            "PATH": f"{self.environment / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org",
            "NO_COLOR": "1",
        }  # fmt: skip

    def run(
        self, *args: str, cwd: Path | None = None, code: int = 0, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `loopwright` with arguments; another exit code than this one is an error."""
        done = subprocess.run(
            (str(self.environment / "bin" / "loopwright"), *args),
            cwd=cwd or self.folder, env=self.variables | more, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        if done.returncode != code or "Traceback (most recent" in done.stdout + done.stderr:
            raise TrialError(
                f"`loopwright {' '.join(args)}` ended with {done.returncode}, not {code}:\n"
                f"{done.stdout}{done.stderr}"
            )
        return done

    def repository(self, name: str, settings: str = "") -> Path:
        """Return a new repository with a scripted agent and settings."""
        repo, script = self.folder / name, self.folder / "script.json"
        script.write_text(json.dumps(DONE))
        repo.mkdir()
        agent = json.dumps(["loopwright-agent", str(script)])
        (repo / "loopwright.toml").write_text(f'command = {agent}\nverify = ["true"]\n{settings}')
        (repo / "plan.toml").write_text(PLAN)
        (repo / "app.pem").write_text("no key\n")
        for args in (("init", "-q"), ("add", "--all"), ("commit", "-qm", "Begin")):
            subprocess.run(("git", *args), cwd=repo, env=self.variables, check=True)
        return repo


def base_install(installed: Installed) -> tuple[str, ...]:
    """Use everything that needs no extra, and see that what needs one says which; name what ran."""
    tried = (version, demo, run, up, serve, missing_extras)
    return _all(installed, tried)


def with_extras(installed: Installed) -> tuple[str, ...]:
    """Use what the extras are for, as far as it needs nobody else."""
    return _all(installed, (version, extras_are_found, tools))


def _all(installed: Installed, tried: tuple[Callable[[Installed], None], ...]) -> tuple[str, ...]:
    for each in tried:
        try:
            each(installed)
        except subprocess.TimeoutExpired as slow:
            raise TrialError(f"{each.__name__}: {slow}") from None
        except (OSError, ValueError) as problem:
            raise TrialError(f"{each.__name__}: {type(problem).__name__}: {problem}") from None
    return tuple(each.__name__.replace("_", " ") for each in tried)


def version(installed: Installed) -> None:
    """It is the version that was built."""
    said = installed.run("--version").stdout
    if said != f"loopwright {__version__}\n":
        raise TrialError(f"`loopwright --version` says {said!r}, not {__version__}")


def demo(installed: Installed) -> None:
    """The demonstration plays to its end."""
    installed.run("demo", "--plain", "--keep", str(installed.folder / "demo"))


def run(installed: Installed) -> None:
    """One task comes to its end."""
    repo = installed.repository("of-run")
    said = json.loads(installed.run("run", "Work", "--json", cwd=repo).stdout)
    if said["result_type"] != "task_complete":
        raise TrialError(f"`run` ended with {said}")


def up(installed: Installed) -> None:
    """A plan of two tasks, one of which waits for the other, comes to its end."""
    repo = installed.repository("of-up")
    installed.run("up", "plan.toml", "--port", "0", cwd=repo)
    listed = json.loads(installed.run("ps", "--json", cwd=repo).stdout)["lifecycles"]
    if [each["state"] for each in listed] != ["done", "done"]:
        raise TrialError(f"`up` left {listed}")


def serve(installed: Installed) -> None:
    """The server answers, shows its board, and ends when it is told to."""
    repo = installed.repository("of-serve")
    command = (str(installed.environment / "bin" / "loopwright"), "serve", "--port", "0", "--json")
    with subprocess.Popen(
        command, cwd=repo, env=installed.variables | {"LOOPWRIGHT_TOKEN": TOKEN},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise TrialError(f"`serve` did not begin: {process.communicate()[1]}")
            url = json.loads(line)["url"]
            for path in ("/healthz", "/readyz", "/", "/metrics"):
                asked = urllib.request.Request(  # noqa: S310  # an address that it printed itself
                    url + path, headers={"Authorization": f"Bearer {TOKEN}"}
                )
                with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:  # noqa: S310  # as above
                    answer.read()
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def missing_extras(installed: Installed) -> None:
    """What needs an extra says which, how to install it, and ends in order."""
    plain, temporal = installed.repository("plain"), installed.repository("temporal", TEMPORAL)
    telling = installed.repository("telling", NOTIFY)
    app = installed.repository("app", APP)
    traced = installed.repository("traced", "telemetry = true\n")
    told = installed.repository("tools", 'tool_server = "on"\n')
    agent = {
        "LOOPWRIGHT_AGENT_ID": "agent-T001", "LOOPWRIGHT_TASK_ID": "T001",
        "LOOPWRIGHT_ATTEMPT": "1", "LOOPWRIGHT_SPAWN_ID": "agent-T001.a.1.1",
        "LOOPWRIGHT_COMM_FILE": str(plain / "communications.json"),
        "LOOPWRIGHT_SUMMARY_FILE": str(plain / "summary.md"),
    }  # fmt: skip
    for extra, said in (
        ("mcp", installed.run("mcp", cwd=plain, code=2, **agent)),
        ("mcp", installed.run("run", "Work", cwd=told, code=2)),
        ("temporal", installed.run("up", "plan.toml", "--port", "0", cwd=temporal, code=2)),
        ("temporal", installed.run("worker", "--name", "a", cwd=temporal, code=2)),
        ("otel", installed.run("run", "Work", cwd=traced, code=2)),
        ("otel", installed.run("up", "plan.toml", "--port", "0", cwd=traced, code=2)),
        ("otel", installed.run("serve", "--port", "0", cwd=traced, code=2)),
        ("notify", installed.run("notify", "test", cwd=telling, code=2)),
        ("github-app", installed.run("run", "Work", cwd=app, code=2)),
        ("github-app", installed.run("doctor", cwd=app, code=2)),
        ("notify", installed.run("doctor", cwd=telling, code=2)),
        ("otel", installed.run("doctor", cwd=traced, code=2)),
        ("temporal", installed.run("doctor", cwd=temporal, code=2)),
    ):
        words = " ".join(f"{said.stdout}{said.stderr}".split())
        if not re.search(rf"install '?\"?loopwright\[{extra}\]", words):
            raise TrialError(f"{said.args[1:]} does not name the extra {extra}: {words}")


def extras_are_found(installed: Installed) -> None:
    """What `doctor` misses without the extras is there."""
    settings = f"telemetry = true\n{APP}{TEMPORAL}{NOTIFY}"
    repo = installed.repository("all", settings)
    said = installed.run("doctor", cwd=repo, code=2)  # no such server, no such key
    words = f"{said.stdout}{said.stderr}"
    if "loopwright[" in words:
        raise TrialError(f"`doctor` misses an extra that is installed: {words}")


def tools(installed: Installed) -> None:
    """The tool server answers a client."""
    repo = installed.repository("of-tools")
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "trial", "version": "1"},
        },
    }  # fmt: skip
    asked = [hello, {"jsonrpc": "2.0", "method": "notifications/initialized"},
             {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}]  # fmt: skip
    done = subprocess.run(
        (str(installed.environment / "bin" / "loopwright"), "mcp"),
        cwd=repo, input="".join(f"{json.dumps(each)}\n" for each in asked), text=True,
        env=installed.variables | {
            "LOOPWRIGHT_AGENT_ID": "agent-T001", "LOOPWRIGHT_TASK_ID": "T001",
            "LOOPWRIGHT_ATTEMPT": "1", "LOOPWRIGHT_SPAWN_ID": "agent-T001.a.1.1",
            "LOOPWRIGHT_COMM_FILE": str(repo / "communications.json"),
            "LOOPWRIGHT_SUMMARY_FILE": str(repo / "summary.md"),
        },
        capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    if "report_breakpoint" not in done.stdout:
        raise TrialError(f"`loopwright mcp` offers no tools: {done.stdout}{done.stderr}")
