"""`loopwright diff AGENT`: what the work of a lifecycle changed, flagged files first."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.work_reader import work_reader
from orchestrator.config.known_secrets import masker_of
from orchestrator.config.settings import load_settings
from orchestrator.control.open_store import known, store_of
from orchestrator.review import diff_text
from orchestrator.review.own_work import ALL, OWN
from orchestrator.review.work_diff import STAT, UNIFIED, WORDS, DiffWish, diff_form
from orchestrator.terminal.options import CommandLineParser, UsageError, find_repo, positive
from orchestrator.terminal.pager import show
from orchestrator.terminal.text import coloured, one_line, say, tell, terminal_width, to_json
from runtime.git.git import Git

if TYPE_CHECKING:
    from orchestrator.review.work_diff import WorkDiff


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Show what the work of a lifecycle changed, against what it builds on. Files that belong "
        "to tests or gates come first, with the reason.",
        example=f"loopwright {name} T001\nloopwright {name} T001 --stat\n"
        f"loopwright {name} T001 --since 3 --word",
        more="On a terminal it is coloured and paged as git's: GIT_PAGER, your core.pager, PAGER,\n"
        "less. NO_COLOR is respected.",
    ).with_agent()
    made.add_argument("--stat", action="store_true", help="only the files, and how much of each")
    made.add_argument("--word", action="store_true", help="show changed words within a line")
    made.add_argument(
        "--with-dependencies", action="store_true",
        help="against the base: with the work that it builds on and that was not accepted",
    )  # fmt: skip
    made.add_argument("--since", type=positive, metavar="N", help="only what came after attempt N")
    made.add_argument("--file", default="", metavar="PATH", help="only this file")
    made.add_argument("--no-pager", action="store_true", help="print it all at once")
    return made.with_json().with_repo()


def run(name: str, args: list[str]) -> int:
    """Show."""
    options = parser(name).parse_args(args)
    if options.since and options.with_dependencies:
        raise UsageError("--since and --with-dependencies are two different bases: name one")
    of = f"since:{options.since}" if options.since else OWN
    view = STAT if options.stat else WORDS if options.word else UNIFIED
    wish = DiffWish(
        of=ALL if options.with_dependencies else of, view=view, file=options.file, whole=True
    )
    repo = find_repo(options.repo)
    diff = asyncio.run(_read(repo, options.agent, wish))
    if options.json:
        say(to_json(diff_form(diff, view)))
        return 0
    if not diff.files:
        tell(one_line(f"{diff.agent_id} changed nothing, against {diff.against}"))
        return 0
    text = _text(diff, only_stat=options.stat)
    if options.no_pager:
        sys.stdout.write(text)
    else:
        show(text, os.environ, core_pager)
    return 0


async def _read(repo: Path, agent_id: str, wish: DiffWish) -> WorkDiff:
    settings = load_settings(repo, environ=os.environ)
    masker = masker_of(os.environ, settings.pass_env)
    async with store_of(repo) as store:
        record = await known(store, agent_id, repo)
        reader = work_reader(repo, store, settings, masker)
        return await reader.diff(record, wish)


def _text(diff: WorkDiff, *, only_stat: bool) -> str:
    colours = coloured(sys.stdout, os.environ)
    width = terminal_width(sys.stdout, os.environ)
    told = [f"# {one_line(diff_text.heading(diff))}"] if not only_stat else []
    if only_stat:
        told += diff_text.stat(diff, width=width, colours=colours)
        told.append(f"{diff_text.count(len(diff.files))}, +{diff.added} -{diff.removed}")
    else:
        told += diff_text.lines(diff, colours=colours)
    return "\n".join([*told, ""])


def core_pager() -> str:
    """Return the pager of the user's own git configuration, never a repository's."""
    outside = Path(os.sep)
    for where in ("--global", "--system"):
        found = Git().run_blocking("config", where, "--get", "core.pager", cwd=outside, check=False)
        if found.code == 0 and found.text.strip():
            return found.text.strip()
    return ""
