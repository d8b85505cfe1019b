"""`loopwright init`: prepares a repository and says what to do next."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from lifecycle.audit import Audit
from lifecycle.clock import SystemClock
from lifecycle.paths import Paths
from lifecycle.store.lock import RunnerLock
from lifecycle.store.lost_records import is_to_be_made
from lifecycle.store.sqlite.store import SqliteStore
from orchestrator.cli.init_questions import ask
from orchestrator.control.people_only import require_person
from orchestrator.init import OK, InitStep, look, prepare, settings_at
from orchestrator.proposals.first_settings import FirstSettings
from orchestrator.terminal import exits
from orchestrator.terminal.options import CommandLineParser, find_repo, user
from orchestrator.terminal.text import safe, say, terminal_width, wrapped

if TYPE_CHECKING:
    from pathlib import Path


_MARGIN = 6
_MORE = """\
It looks for agent programs and their sign-in, for tests and for lock files, says what it found and
what not, and asks for agent, verify command and budget. Enter takes the proposal. Without a
terminal nothing is asked. What is there already stays; running it again is harmless."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Prepare a repository: ask three things, write loopwright.toml and git's excludes.",
        example=f"loopwright {name}",
        more=_MORE,
    )
    made.add_argument("--yes", action="store_true", help="ask nothing: take what was found")
    made.add_argument(
        "--begin-anew",
        action="store_true",
        help="start with empty records where those of earlier loops are lost",
    )
    return made.with_repo()


def run(name: str, args: list[str]) -> int:
    """Prepare."""
    options = parser(name).parse_args(args)
    repo = find_repo(options.repo)
    if options.begin_anew:
        say(safe(_begin_anew(repo)))
        return 0
    there, found, chosen = settings_at(repo), None, None
    if there:
        _tell(InitStep(OK, there))
    else:
        found, steps = look(repo, os.environ)
        for step in steps:
            _tell(step)
        say()
        asks = sys.stdin.isatty() and sys.stdout.isatty() and not options.yes
        try:
            chosen = ask(found) if asks else FirstSettings.proposed(found)
        except KeyboardInterrupt:
            say("\nNothing was written.")
            return exits.INTERRUPTED
        if asks:
            say()
    for step in prepare(repo, found, chosen):
        _tell(step)
    say()
    say('Next: `loopwright doctor` tries all of it; `loopwright run "TEXT"` starts work.')
    return 0


def _tell(step: InitStep) -> None:
    """Print a step; what is too long for the terminal goes on below it."""
    width = terminal_width(sys.stdout, os.environ)
    text = safe(step.text)
    head, *rest = wrapped(text, max(width - _MARGIN, _MARGIN)) if width else [text]
    say(f"{step.level:<{_MARGIN}}{head}")
    for line in rest:
        say(f"{'':<{_MARGIN}}{line}")


def _begin_anew(repo: Path) -> str:
    """Make empty records where those of earlier loops are lost; what is there stays as it is."""
    require_person(repo, "begin anew")
    paths = Paths.of(repo)
    paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = RunnerLock(paths.root, who="loopwright init --begin-anew")
    lock.acquire()
    try:
        if not is_to_be_made(paths.database):
            return f"ok    {paths.database} holds records and stays as it is"
        asyncio.run(_make(paths.database))
    finally:
        lock.release()
    return (
        f"done  {paths.database} is new and empty; tasks that are run again continue from the "
        "branches that exist"
    )


async def _make(database: Path) -> None:
    async with await SqliteStore.open(database, anew=True) as store:
        audit = Audit(store.trail, now=SystemClock().now)
        await audit.record("begin_anew", user(), database.name, "done", "the records were lost")
