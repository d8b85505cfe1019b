"""`loopwright summary`: what attempts were told, and what the next one will be."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.audit import Audit
from lifecycle.machine import events as on
from lifecycle.machine.states import About, AwaitingHuman, Suspended
from orchestrator.control.commands import OperatorCommand, steer
from orchestrator.control.open_store import known, store_of
from orchestrator.control.people_only import require_person
from orchestrator.control.requests import send
from orchestrator.control.summaries import HELD, opened_summaries
from orchestrator.terminal.options import (
    CommandLineParser,
    UsageError,
    find_repo,
    positive,
    split_positional,
    user,
)
from orchestrator.terminal.text import now, one_line, safe, say, tell, to_json
from runtime.temp_folders import scratch

if TYPE_CHECKING:
    from argparse import Namespace


WORDS = ("edit", "approve", "hold")


def parser(name: str) -> CommandLineParser:
    """Return the options of showing; `edit`, `approve` and `hold` have their own."""
    made = CommandLineParser(
        name,
        "Show the summary of an attempt; by default what the next one will be told.",
        example=(
            f"loopwright {name} agent-T001\n"
            f"loopwright {name} agent-T001 3 --diff\n"
            f"loopwright {name} edit agent-T001\n"
            f"loopwright {name} approve agent-T001"
        ),
        more=(
            "loopwright summary edit AGENT [--file FILE]   replace the text for the next attempt\n"
            "loopwright summary approve AGENT              release an attempt held for review\n"
            "loopwright summary hold AGENT                 hold the next attempt until resumed"
        ),
    ).with_agent()
    made.add_argument("attempt", nargs="?", type=positive, metavar="ATTEMPT", help="its number")
    made.add_argument("--diff", action="store_true", help="what changed since the one before")
    return made.with_json().with_repo()


def run(name: str, args: list[str]) -> int:
    """Show, edit, approve or hold."""
    word, rest = split_positional(args, WORDS)
    if word == "edit":
        return _edit(rest)
    if word == "approve":
        return _approve(rest)
    if word == "hold":
        return _hold(rest)
    options = parser(name).parse_args(args)
    asyncio.run(_show(find_repo(options.repo), options))
    return 0


async def _show(repo: Path, options: Namespace) -> None:
    async with opened_summaries(repo, options.agent, os.environ) as (_, record, summaries):
        options.agent = record.agent_id
        shown = await summaries.show(options.attempt, at=now())
        against, diff = summaries.compare(shown) if options.diff else (None, "")
    if options.json:
        form = shown.form(options.agent)
        say(to_json({**form, "against": against, "diff": diff} if options.diff else form))
        return
    origin = "as its attempt began with" if shown.path else "as it will be, if nothing changes"
    tell(f"Summary of attempt {shown.attempt}, {origin}{', edited' if shown.edited else ''}")
    if not options.diff:
        say(safe(shown.text.rstrip("\n"), lines=True))
    elif against is None:
        tell("There is no earlier summary to compare with.")
    else:
        say(safe(diff, lines=True) if diff else f"No difference to that of attempt {against}.")


def _edit(args: list[str]) -> int:
    made = CommandLineParser(
        "summary edit",
        "Replace the summary of the next attempt with your text; an empty one restores it.",
        example="loopwright summary edit agent-T001\nloopwright summary edit agent-T001 --file -",
        more="Without --file, $VISUAL or $EDITOR opens on the present text.",
    ).with_agent()
    made.add_argument("--file", metavar="FILE", help="take the text from here; - is standard input")
    options = made.with_repo().parse_args(args)
    repo = find_repo(options.repo)
    require_person(repo, f"summary edit {options.agent}", options.agent)
    tell(asyncio.run(_replace(repo, options)))
    return 0


async def _replace(repo: Path, options: Namespace) -> str:
    async with opened_summaries(repo, options.agent, os.environ) as (store, record, summaries):
        options.agent = record.agent_id
        attempt = summaries.next_attempt
        before = await summaries.to_edit(at=now())
        text = _given(options.file) if options.file is not None else _edited(before)
        if text == before:
            return "Nothing was changed."
        audit = Audit(store.trail, now=now, masker=summaries.masker)
        path = await summaries.replace(text, audit, by=user(), at=now())
        seen = await store.get(options.agent)
    if path is None:
        return f"Attempt {attempt} gets the rendered summary again."
    late = seen is None or seen.work is None or seen.work != record.work
    warning = " The lifecycle moved meanwhile: look whether it came in time." if late else ""
    return f"Attempt {attempt} will be told this text: {path}.{warning}"


def _approve(args: list[str]) -> int:
    made = CommandLineParser(
        "summary approve",
        "Release an attempt that review_summaries holds until its summary is read.",
        example="loopwright summary approve agent-T001",
    ).with_agent()
    options = made.with_repo().parse_args(args)
    repo = find_repo(options.repo)
    require_person(repo, f"summary approve {options.agent}", options.agent)
    asyncio.run(_release(repo, options.agent))
    tell(f"{options.agent}: the summary is approved; it starts as soon as a slot is free.")
    return 0


def _hold(args: list[str]) -> int:
    made = CommandLineParser(
        "summary hold",
        "Hold the next attempt until its summary is read; `loopwright resume` lets it start.",
        example="loopwright summary hold agent-T001",
    ).with_agent()
    made.with_by().with_reason()
    options = made.with_repo().parse_args(args)
    repo = find_repo(options.repo)
    require_person(repo, f"summary hold {options.agent}", options.agent)
    command = OperatorCommand(
        verb="pause",
        agent_id=options.agent,
        by=options.by or user(),
        why=options.why.strip() or HELD,
    )
    outcome = asyncio.run(steer(repo, command))
    say(one_line(f"{outcome.agent_id}: {outcome.text}"))
    if outcome.hint:
        tell(one_line(outcome.hint))
    return outcome.exit_code


async def _release(repo: Path, agent_id: str) -> None:
    async with store_of(repo) as store:
        record = await known(store, agent_id, repo)
    agent_id = record.agent_id
    state = record.work.inner if isinstance(record.work, Suspended) else record.work
    if not isinstance(state, AwaitingHuman) or state.about is not About.REVIEW:
        raise UsageError(
            f"no summary of {agent_id} waits for approval; `loopwright show {agent_id} --why` "
            "tells what it waits for"
        )
    await send(repo, agent_id, on.SummaryApproved(at=now(), by=user()))


def _given(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as problem:
        raise UsageError(f"{file} cannot be read ({problem.strerror})") from problem
    except UnicodeDecodeError as problem:
        raise UsageError(f"{file} is not UTF-8 text; save it as UTF-8") from problem


def _edited(before: str) -> str:
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    if not command:
        raise UsageError("no editor is known: set EDITOR, or give the text with --file FILE")
    with scratch("summary") as folder:
        path = folder / "summary.md"
        path.write_text(before, "utf-8")
        try:
            code = subprocess.run([*command, str(path)], check=False).returncode
        except OSError as problem:
            raise UsageError(f"the editor {command[0]} cannot be started: {problem}") from problem
        if code:
            raise UsageError(f"the editor {command[0]} ended with code {code}; nothing was changed")
        return _given(str(path))
