"""`loopwright export`: lifecycles with journal and attempts as one JSON document."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.store.damaged_records import RecordDamagedError
from orchestrator.control.open_store import known, runner_of, store_of
from orchestrator.terminal import exits
from orchestrator.terminal.options import CommandLineParser, UsageError, find_repo
from orchestrator.terminal.text import now, tell, to_json
from orchestrator.version import __version__
from orchestrator.wording.json_forms import FORM_VERSION, export_form

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import AsyncIterator, Iterator
    from typing import TextIO

    from lifecycle.record import AgentLifecycle, JournalEntry
    from lifecycle.store.damaged_records import Damaged
    from lifecycle.store.sqlite.store import SqliteStore

PAGE = 1000
STDOUT = "-"


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Write lifecycles with journal, attempts and pending effects as JSON.",
        example=f"loopwright {name} agent-T001\nloopwright {name} --all --output records.json",
        more="See `loopwright schema export`. Values of variables set for agents are hidden.\n\n"
        "Exit code: 0, or 6 where records are damaged; all others are written, these are named.",
    )
    made.add_argument("agent", nargs="?", metavar="AGENT", help="agent id")
    made.add_argument("--all", action="store_true", help="all lifecycles of the repository")
    made.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write to this file; - is standard output",
    )
    return made.with_json("the default; accepted for scripts").with_repo()


def run(name: str, args: list[str]) -> int:
    """Write."""
    options = parser(name).parse_args(args)
    if bool(options.agent) == options.all:
        raise UsageError("give either an AGENT or --all")
    repo = find_repo(options.repo)
    with _target(options.output) as stream:
        count, lost = asyncio.run(_write(repo, options, stream))
    if options.output not in (None, STDOUT):
        tell(f"{count} lifecycle{'' if count == 1 else 's'} written to {options.output}")
    return exits.FAILED if lost else exits.COMPLETE


async def _write(repo: Path, options: Namespace, stream: TextIO) -> tuple[int, int]:
    count, runs = 0, runner_of(repo) is not None
    async with store_of(repo) as store:
        lost: list[Damaged] = []
        if options.all:
            found = _every(store, lost)
        else:
            found = _one(await known(store, options.agent, repo))
        head = {"form": FORM_VERSION, "loopwright": __version__, "exported_at": now()}
        stream.write(to_json(head).removesuffix("\n}") + ',\n  "lifecycles": [')
        async for record in found:
            form = export_form(
                record,
                await _journal(store, record.agent_id),
                await store.attempts(record.agent_id),
                await store.pending(record.agent_id),
                runs=runs,
            )
            stream.write(",\n" if count else "\n")
            stream.write(to_json(form, compact=True))
            count += 1
        named = [
            {"agent_id": each.agent_id, "task_id": each.task_id, "problem": each.problem}
            for each in lost
        ]
        stream.write(f'\n  ],\n  "damaged": {to_json(named, compact=True)}\n}}\n')
    for each in lost:
        tell(f"Not written: {RecordDamagedError(each)}")
    return count, len(lost)


async def _every(store: SqliteStore, lost: list[Damaged]) -> AsyncIterator[AgentLifecycle]:
    async for page in store.pages():
        lost += page.damaged
        for record in page.records:
            yield record


async def _one(record: AgentLifecycle) -> AsyncIterator[AgentLifecycle]:
    yield record


async def _journal(store: SqliteStore, agent_id: str) -> list[JournalEntry]:
    entries: list[JournalEntry] = []
    after = 0
    while page := await store.journal(agent_id, after=after, limit=PAGE):
        entries += page
        after = page[-1].seq
    return entries


@contextmanager
def _target(output: str | None) -> Iterator[TextIO]:
    """Write a file whole and for its owner alone; a failure leaves what was there.

    A link is followed, and what is not a file (a pipe, a device) is written into, never replaced.
    """
    if output is None or output == STDOUT:
        yield sys.stdout
        return
    path = Path(output)
    if path.exists() and not path.is_file():
        # Opened without O_CREAT: what it was a moment ago must not become a file now.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CLOEXEC), "w") as stream:
            yield stream
        return
    path = path.resolve()
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            yield stream
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
