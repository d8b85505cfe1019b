"""One git process: how it is started, limited and ended, and how its failure is reported.

Owns the number of concurrent git processes. Command and environment come from `runtime.git.git`:
nothing else may start a process through here.
"""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from runtime.async_subprocess import run_to_end
from runtime.errors import GitError, RuntimeFault, ShortageError
from runtime.git.porcelain import shown
from runtime.shortage import said_by_program, shortage_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CONCURRENT = 4
"""More git processes at once than this only slow each other down."""
FAR = 8
"""Concurrent processes that wait for another machine; others never wait for them."""
STDERR_TAIL = 2000

_FAR = frozenset({"fetch", "ls-remote", "push"})
_Slots = WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
_slots: dict[int, _Slots] = {CONCURRENT: _Slots(), FAR: _Slots()}


@dataclass(frozen=True, slots=True)
class GitResult:
    """The result of one git process."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """The output as text, without the final line break."""
        return shown(self.stdout).rstrip("\n")


@dataclass(frozen=True, slots=True)
class GitCall:
    """One git process to run."""

    args: tuple[str, ...]
    """What a person would type after `git`."""
    command: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    seconds: float
    data: bytes | None = None

    async def run(self) -> GitResult:
        """Run it to its end, once a slot is free."""
        most = FAR if self.args[0] in _FAR else CONCURRENT
        slots = _slots[most].setdefault(asyncio.get_running_loop(), asyncio.Semaphore(most))
        async with slots:
            try:
                ended = await run_to_end(
                    self.command, cwd=self.cwd, env=self.env, data=self.data, seconds=self.seconds
                )
            except (OSError, RuntimeError, MemoryError) as error:
                if refusal := self._refusal(error):
                    raise refusal from error
                raise
        result = GitResult(ended.code, ended.stdout, ended.stderr.decode(errors="replace"))
        if ended.timed_out:
            raise self._too_slow(result.stderr)
        return self._answered(result)

    def run_blocking(self) -> GitResult:
        """Run it to its end immediately, outside of any event loop."""
        try:
            done = subprocess.run(
                self.command,
                cwd=self.cwd,
                env=self.env,
                input=self.data or b"",
                capture_output=True,
                timeout=self.seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise self._too_slow("") from error
        except (OSError, RuntimeError, MemoryError) as error:
            if refusal := self._refusal(error):
                raise refusal from error
            raise
        result = GitResult(done.returncode, done.stdout, done.stderr.decode(errors="replace"))
        return self._answered(result)

    def failed(self, result: GitResult) -> GitError:
        """Return the error for a failure, with git's own message."""
        tail = result.stderr.strip()[-STDERR_TAIL:] or "it gave no reason"
        return GitError(
            f"git {self.args[0]} failed in {self.cwd} with exit code {result.code}: {tail}\n"
            f"by hand: {self._by_hand()}",
            code=result.code,
            stderr=result.stderr,
        )

    def _too_slow(self, stderr: str) -> GitError:
        return GitError(
            f"git {self.args[0]} in {self.cwd} did not end within {self.seconds:g} s and was "
            f"stopped. {stderr.strip()[-STDERR_TAIL:]}\nby hand: {self._by_hand()}\n"
            "if that does not end either, a named pipe may block it: `find . -type p` finds it",
            stderr=stderr,
        )

    def _answered(self, result: GitResult) -> GitResult:
        """Return the result; ShortageError if the machine ran short of something."""
        if result.code and (short := said_by_program(result.stderr)):
            tail = result.stderr.strip()[-STDERR_TAIL:]
            raise ShortageError(f"git {self.args[0]} failed: {short}\ngit says: {tail}")
        return result

    def _refusal(self, error: Exception) -> RuntimeFault | None:
        if short := shortage_of(error):
            return ShortageError(f"git cannot be started: {short}")
        if not isinstance(error, OSError):
            return None
        if not self.cwd.is_dir():
            return GitError(f"there is no folder {self.cwd} to run git in")
        return GitError(f"git cannot be started ({error.strerror}): install git and put it on PATH")

    def _by_hand(self) -> str:
        return shlex.join(("git", "-C", str(self.cwd), *self.args))
