"""`loopwright export`: lifecycles as one JSON document to go on from, or as one static page."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.paths import Paths
from lifecycle.record import Filter
from lifecycle.store.damaged_records import RecordDamagedError
from orchestrator.cli.work_reader import work_reader
from orchestrator.config.known_secrets import masker_of
from orchestrator.config.settings import load_settings
from orchestrator.control.costs import instant_of
from orchestrator.control.open_store import known, runner_of, store_of
from orchestrator.terminal import exits
from orchestrator.terminal.options import CommandLineParser, UsageError, find_repo
from orchestrator.terminal.text import now, tell, to_json
from orchestrator.transfer.belongings import KeptDocuments, edited_of
from orchestrator.version import __version__
from orchestrator.web.export.static_page import ExportSource, static_page, title_of_page
from orchestrator.wording.json_forms import FORM_VERSION, export_form
from runtime.git.branch_transfer import BranchTransfer

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import AsyncIterator, Iterator
    from typing import TextIO

    from lifecycle.record import AgentLifecycle
    from lifecycle.store.damaged_records import Damaged
    from lifecycle.store.sqlite.store import SqliteStore

STDOUT = "-"
LIVE = (
    "{agent_id} has an agent at work, so `loopwright import` will refuse it: `loopwright stop "
    "{agent_id}`, then export again"
)


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Write lifecycles with journal, attempts and pending effects as JSON, or as a page.",
        example=f"loopwright {name} agent-T001\nloopwright {name} --all --output records.json\n"
        f"loopwright {name} T001 --output T001.json --with-branches\n"
        f"loopwright {name} T11 T12 --html work.html\n"
        f"loopwright {name} --since night --html night.html",
        more="A page holds no script and fetches nothing: attach it to a pull request or a mail. "
        "It tells what was asked and said, gates, changed files, attempts and costs; of many "
        "lifecycles the newest.\n\nSee `loopwright schema export`. Values of variables set for "
        "agents are hidden. `loopwright import` goes on from the JSON in another clone: stop "
        "lifecycles first. --with-branches writes FILE.bundle beside it, a git bundle with those "
        "commits of branches and saved work that no remote has.\n\n"
        "Exit code: 0, or 6 where records are damaged; all others are written, these are named.",
    )
    made.add_argument("agents", nargs="*", metavar="AGENT", help="agent or task ids")
    made.add_argument("--all", action="store_true", help="all lifecycles of the repository")
    made.add_argument(
        "--since",
        metavar="WHEN",
        help="those that moved since then: night (18:00), days (7d), hours (12h) or a date",
    )
    made.add_argument("--html", metavar="FILE", help="write one page; - is standard output")
    made.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write to this file; - is standard output",
    )
    made.add_argument(
        "--with-branches", action="store_true", help="write a git bundle beside FILE, to go with it"
    )
    return made.with_json("the default; accepted for scripts").with_repo()


def run(name: str, args: list[str]) -> int:
    """Write."""
    options = parser(name).parse_args(args)
    if sum(map(bool, (options.agents, options.all, options.since))) != 1:
        raise UsageError("give either AGENT, --since or --all")
    if options.html and (options.output or options.json):
        raise UsageError("--html names its file itself; leave --output and --json out")
    if options.with_branches and (options.output in (None, STDOUT) or options.html):
        raise UsageError("--with-branches writes beside a file: give --output FILE")
    repo = find_repo(options.repo)
    target = options.html or options.output
    with _target(target) as stream:
        write = _write_page if options.html else _write
        count, lost = asyncio.run(write(repo, options, stream))
    if target not in (None, STDOUT):
        tell(f"{count} lifecycle{'' if count == 1 else 's'} written to {target}")
    return exits.FAILED if lost else exits.COMPLETE


async def _write(repo: Path, options: Namespace, stream: TextIO) -> tuple[int, int]:
    count, runs, paths = 0, runner_of(repo) is not None, Paths.of(repo)
    settings = load_settings(repo, environ=os.environ)
    masker = masker_of(os.environ, settings.pass_env)
    branches, named = BranchTransfer(repo), list[str]()
    async with store_of(repo) as store:
        lost: list[Damaged] = []
        found = _wanted(store, options, repo, lost)
        documents, refs = await KeptDocuments.read(store), await branches.refs()
        head = {"form": FORM_VERSION, "loopwright": __version__, "exported_at": now()}
        stream.write(to_json(head).removesuffix("\n}") + ',\n  "lifecycles": [')
        async for record in found:
            stored = await store.whole(record.agent_id)
            if stored is None:
                continue  # it was removed this moment
            stored = replace(stored, documents=documents.of(stored.record))
            edited = edited_of(paths, record.agent_id, masker)
            own = refs.get(record.agent_id, {})
            form = export_form(stored, runs=runs, edited=edited, refs=own)
            if form["live"] and options.with_branches:
                tell(LIVE.format(agent_id=record.agent_id))
            named += own
            stream.write(",\n" if count else "\n")
            stream.write(to_json(form, compact=True))
            count += 1
        unread = [
            {"agent_id": each.agent_id, "task_id": each.task_id, "problem": each.problem}
            for each in lost
        ]
        bundle = await _bundle(branches, named, options) if options.with_branches else None
        stream.write(f'\n  ],\n  "damaged": {to_json(unread, compact=True)},\n')
        stream.write(f'  "bundle": {to_json(bundle, compact=True)}\n}}\n')
    _tell_of(lost)
    return count, len(lost)


async def _bundle(branches: BranchTransfer, refs: list[str], options: Namespace) -> str | None:
    """Write the commits beside the file, if there are any to write; return the bundle's name."""
    file = _beside(options.output)
    if not await branches.pack(refs, file):
        tell("All commits are at a remote: `git fetch` in the other clone brings them.")
        return None
    tell(f"Their commits are in {file}: keep it beside the file.")
    return file.name


def _beside(output: str) -> Path:
    target = Path(output).resolve()
    return target.with_name(f"{target.name}.bundle")


async def _write_page(repo: Path, options: Namespace, stream: TextIO) -> tuple[int, int]:
    """Write one page."""
    settings = load_settings(repo, environ=os.environ)
    masker = masker_of(os.environ, settings.pass_env)
    lost: list[Damaged] = []
    async with store_of(repo) as store:
        reader = work_reader(repo, store, settings, masker)
        source = ExportSource(
            repo=repo,
            database=Paths.of(repo).database,
            store=store,
            reader=reader,
            mask=masker.mask,
            now=now(),
            runs=runner_of(repo) is not None,
        )
        records = [record async for record in _wanted(store, options, repo, lost)]
        since = instant_of(options.since, now()) if options.since else None
        title = title_of_page(records, since, repo.name)
        stream.write(await static_page(source, records, title=title, since=since))
    _tell_of(lost)
    return len(records), len(lost)


def _tell_of(lost: list[Damaged]) -> None:
    for each in lost:
        tell(f"Not written: {RecordDamagedError(each)}")


async def _wanted(
    store: SqliteStore, options: Namespace, repo: Path, lost: list[Damaged]
) -> AsyncIterator[AgentLifecycle]:
    """Yield those that were asked for."""
    if options.agents:
        for agent_id in options.agents:
            yield await known(store, agent_id, repo)
        return
    since = instant_of(options.since, now()) if options.since else None
    async for page in store.pages(Filter(updated_after=since)):
        lost += page.damaged
        for record in page.records:
            yield record


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
