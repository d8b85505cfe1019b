"""`loopwright init`: prepares a repository and says what to do next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.audit import Audit
from lifecycle.clock import SystemClock
from lifecycle.paths import Paths
from lifecycle.store.lock import RunnerLock
from lifecycle.store.lost_records import is_to_be_made
from lifecycle.store.sqlite.store import SqliteStore
from orchestrator.control.people_only import require_person
from orchestrator.init import prepare
from orchestrator.terminal.options import CommandLineParser, find_repo, user
from orchestrator.terminal.text import safe, say

if TYPE_CHECKING:
    from pathlib import Path


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Prepare a repository: loopwright.toml with every setting explained, and git's excludes.",
        example=f"loopwright {name}",
        more="Changes nothing that is there already; running it again is harmless.",
    )
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
    for step in prepare(repo):
        say(safe(f"{'done' if step.changed else 'ok  '}  {step.text}"))
    say()
    say('Next: `loopwright doctor` checks the machine; `loopwright run "TEXT"` starts a loop.')
    return 0


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
