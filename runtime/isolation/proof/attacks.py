"""Proof of what a sandbox promises: each claim with an attack that is run inside and outside of it.

Starts short-lived processes in a scratch folder and removes both. A claim is proved only if its
attack works outside: an attack that works nowhere proves nothing. It must do no harm outside.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.isolation.command_line import wrapped
from runtime.isolation.proof.victim import SECRET
from runtime.isolation.workspace_sandbox import OpenedPaths, SandboxPaths, around
from runtime.temp_folders import scratch
from runtime.workspaces.worktrees_dir import claim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runtime.isolation.probe import SandboxChoice
    from runtime.isolation.sandbox import Sandbox

_HERE = Path(__file__).resolve().parent
_PATIENCE = 30.0
_DEATH = 3.0
_GLANCE = 0.3
_STEP = 0.01
_LAST_WORDS = 160
_READING = ("read_environment", "read", "loopback", "abstract", "pathname")
"""Attempts that print the secret if they work."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One claim, and the attempt that would refute it."""

    claim: str
    attempt: str
    target: str = ""
    """The target on the stage, if there are several."""
    only_closed: bool = True
    """Only level container claims this, not a sandbox that takes just the network away."""


ATTACKS = (
    Attack("cannot read the runner's environment", "read_environment"),
    Attack("cannot end the runner", "kill"),
    Attack("cannot trace the runner", "trace"),
    Attack("cannot read the runner's state", "read", "state"),
    Attack("cannot write the runner's state", "write", "state"),
    Attack("cannot read another workspace", "read", "other"),
    Attack("cannot write another workspace", "write", "other"),
    Attack("cannot read the home folder", "read", "home"),
    Attack("cannot write the home folder", "write", "home"),
    Attack("cannot reach other machines", "network", only_closed=False),
    Attack("cannot reach loopback services", "loopback", only_closed=False),
    Attack("cannot reach abstract sockets", "abstract", only_closed=False),
    Attack("cannot reach sockets in folders", "pathname", "socket"),
    Attack("cannot outlive its end", "daemon", "lock"),
    Attack("cannot gain privileges", "privileges"),
    Attack("cannot change the kernel's settings", "kernel"),
)


@dataclass(frozen=True, slots=True)
class AttackResult:
    """The result of one attack."""

    claim: str
    outside: bool
    """Whether it worked without the sandbox."""
    inside: bool
    """Whether it worked in the sandbox, which refutes the claim."""
    detail: str = ""
    """Why it did not work outside, if so."""


class Stage:
    """A scratch folder with all that must be protected, and a fake runner."""

    def __init__(self, folder: Path) -> None:
        self.secret = secrets.token_hex(16)
        self.name = f"loopwright-victim-{secrets.token_hex(8)}"
        self.home = folder / "home"
        self.state = folder / "repo" / ".loopwright"
        worktrees = folder / "worktrees"
        self.workspace = worktrees / "own"
        self.targets = {
            "state": self.state / "state.db",
            "other": worktrees / "other" / "work.txt",
            "home": self.home / "key",
            "socket": self.home / "service",
            "lock": self.workspace / "lock",
        }
        claim(worktrees, folder / "repo")
        for path in self.targets.values():
            path.parent.mkdir(parents=True, exist_ok=True)
        for name in ("state", "other", "home"):
            self.targets[name].write_text(self.secret)
        self._folder = folder
        self._victim: subprocess.Popen[bytes] | None = None
        self._port = 0

    def victim(self) -> int:
        """Return the pid of the fake runner, restarting it if it ended."""
        if self._victim is None or self.victim_has_ended:
            self.close()
            self.targets["socket"].unlink(missing_ok=True)
            self._victim = subprocess.Popen(
                (sys.executable, "-I", _HERE / "victim.py", self.name, self.targets["socket"]),
                env={SECRET: self.secret},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            if self._victim.stdout is not None:
                self._port = int(self._victim.stdout.readline())
        return self._victim.pid

    @property
    def victim_has_ended(self) -> bool:
        """It was killed, or never started."""
        return self._victim is None or self._victim.poll() is not None

    def close(self) -> None:
        """End it."""
        if self._victim is not None:
            self._victim.communicate()

    def sandbox(self, choice: SandboxChoice) -> Sandbox:
        """Return the sandbox of an agent in the stage's workspace.

        All of the stage is readable: what is hidden in it is hidden by the sandbox.
        """
        sandbox = around(
            choice,
            SandboxPaths(self.workspace, self.state, self.home),
            opened=OpenedPaths(readable=(self._folder,)),
        )
        if sandbox is None:
            raise ValueError("nothing to attack: that choice has no sandbox")
        return sandbox

    def command(self, attack: Attack) -> tuple[str, ...]:
        """Return the command that makes the attempt."""
        facts = {
            "pid": self.victim(),
            "name": self.name,
            "port": self._port,
            "path": str(self.targets.get(attack.target, "")),
        }
        script = str(_HERE / "hostile_agent.py")
        return (sys.executable, "-I", script, attack.attempt, json.dumps(facts))


def run_attacks(choice: SandboxChoice) -> Iterator[AttackResult]:
    """Run every attack against a claim that this choice makes; it takes a few seconds."""
    closed = choice.level == "container"
    with scratch("attacks") as folder:
        stage = Stage(folder)
        with contextlib.closing(stage):
            sandbox = stage.sandbox(choice)
            for attack in ATTACKS:
                if closed or not attack.only_closed:
                    yield run_attack(attack, stage, sandbox)


def run_attack(attack: Attack, stage: Stage, sandbox: Sandbox) -> AttackResult:
    """Run one attack inside, then outside."""
    inside, _ = _attempt(attack, stage, sandbox)
    outside, words = _attempt(attack, stage, None)
    return AttackResult(attack.claim, outside, inside, "" if outside else words)


def _attempt(attack: Attack, stage: Stage, sandbox: Sandbox | None) -> tuple[bool, str]:
    """Make the attempt; tell whether it worked, judged by its effect, and its last words."""
    command = stage.command(attack)
    env = {"PATH": os.defpath, "HOME": str(stage.home)}
    if sandbox is not None:
        command, env, _ = wrapped(command, stage.workspace, env, sandbox)
    if attack.attempt == "daemon":
        # Outside nothing ends it.
        return _leave_daemon(command, env, stage, patience=_DEATH if sandbox else _GLANCE), ""
    done = subprocess.run(
        command,
        cwd=stage.workspace,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_PATIENCE,
        check=False,
    )
    words = " ".join(done.stderr.decode(errors="replace").split())[-_LAST_WORDS:]
    return _worked(attack, stage, done), words


def _worked(attack: Attack, stage: Stage, done: subprocess.CompletedProcess[bytes]) -> bool:
    if attack.attempt == "kill":
        return done.returncode == 0 and _soon(lambda: stage.victim_has_ended, _DEATH)
    if attack.attempt == "write":
        path = stage.targets[attack.target]
        changed = path.read_text() != stage.secret
        path.write_text(stage.secret)
        return changed
    if attack.attempt in _READING:
        return stage.secret.encode() in done.stdout
    return done.returncode == 0


def _leave_daemon(
    command: tuple[str, ...], env: dict[str, str], stage: Stage, *, patience: float
) -> bool:
    """Start a process that leaves a daemon, kill it, and check whether the daemon survives."""
    lock = stage.targets["lock"]
    starter = subprocess.Popen(
        command, cwd=stage.workspace, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    with starter:
        if starter.stdout is not None:
            starter.stdout.readline()
        starter.terminate()
        starter.kill()
    if _soon(lambda: _is_free(lock), patience):
        return False
    pid = int(lock.read_text())
    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    return True


def _is_free(lock: Path) -> bool:
    with lock.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def _soon(condition: Callable[[], bool], patience: float) -> bool:
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_STEP)
    return True
