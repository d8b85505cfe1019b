"""Runs a user's command that prints the checks of a commit, for CI that sends no webhooks.

Owns how the command is run and its output read. When to run it is decided in `ci.forge.poller`,
what an answer means in `ci.generic.reports`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shlex
from typing import TYPE_CHECKING, Any

from ci.errors import GarbledError, UnreachableError
from ci.events import clean_line
from ci.generic.webhooks import check_of

if TYPE_CHECKING:
    from pathlib import Path

    from ci.generic.webhooks import ReportedCheck
    from ci.ports import BuildCommands

TIMEOUT = 60.0
AT_ONCE = 4
MOST_BYTES = 2**20
_SAID = 300


class PollCommand:
    """A shell command that prints the checks of `$SHA` on `$BRANCH`: one JSON object, or a list."""

    def __init__(self, command: str, commands: BuildCommands, folder: Path) -> None:
        self._command = command
        self._commands = commands
        self._folder = folder
        self._slots = asyncio.Semaphore(AT_ONCE)
        # Clones of one repository hold the same commits; a mark is unique on the machine.
        self._place = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]

    async def ask(self, sha: str, branch: str) -> tuple[ReportedCheck, ...]:
        """Run it; UnreachableError if it fails, GarbledError if it prints anything else."""
        async with self._slots:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            log, errors = (self._folder / f"{sha}.{end}" for end in ("json", "err"))
            try:
                return await self._ask(sha, branch, log, errors)
            finally:
                log.unlink(missing_ok=True)
                errors.unlink(missing_ok=True)

    async def _ask(
        self, sha: str, branch: str, log: Path, errors: Path
    ) -> tuple[ReportedCheck, ...]:
        # Standard error is kept apart from the answer. Commit and branch are quoted and passed as
        # variables, so that no branch name becomes part of the command.
        script = (
            f"SHA={shlex.quote(sha)} BRANCH={shlex.quote(branch)}; export SHA BRANCH\n"
            f"exec 2>{shlex.quote(errors.name)}\n"
            f"{self._command}\n"
        )
        outcome = await self._commands.run(
            script, cwd=self._folder, log=log, timeout=TIMEOUT, mark=f"poll-{self._place}-{sha}"
        )
        said = clean_line(_read(errors, 4096).decode("utf-8", "replace")[-_SAID:])
        if outcome.timed_out:
            raise UnreachableError(f"the poll command did not end within {TIMEOUT:g} s. {said}")
        if outcome.code != 0:
            raise UnreachableError(f"the poll command ended with {outcome.code}. {said}")
        return _checks(_read(log, MOST_BYTES + 1), sha)


def _read(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except FileNotFoundError:
        return b""


def _checks(raw: bytes, sha: str) -> tuple[ReportedCheck, ...]:
    if len(raw) > MOST_BYTES:
        raise GarbledError(f"the poll command printed more than {MOST_BYTES} bytes")
    if not raw.strip():
        return ()
    try:
        body = json.loads(raw)
        checks = tuple(check_of(_object(each), sha=sha) for each in _listed(body))
    except (ValueError, RecursionError) as fault:
        raise GarbledError(
            f"the poll command printed no checks: {clean_line(str(fault))}; it must print one JSON "
            "object or a list of them, each with `name` and `status`"
        ) from None
    return tuple(check for check in checks if check.sha == sha)


def _listed(body: Any) -> list[Any]:
    return body if isinstance(body, list) else [body]


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{type(value).__name__} is not a JSON object")  # noqa: TRY004  # of the text, not of ours
    return value
