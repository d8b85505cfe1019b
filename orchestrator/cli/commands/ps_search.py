"""`loopwright ps --search TEXT`: the lifecycles in which something was said, asked or printed."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from lifecycle.state_words import meant
from lifecycle.store.lock import holder
from lifecycle.store.search.index import SearchQuestion
from orchestrator.control.search import KINDS_IN_WORDS, found_form, index_of, states_meant
from orchestrator.terminal.options import STATE_FOLDER, UsageError
from orchestrator.terminal.text import (
    coloured,
    now,
    one_line,
    paint,
    say,
    span,
    tell,
    terminal_width,
    to_json,
)
from orchestrator.wording.states import COLOURS

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from lifecycle.store.search.index import IndexProgress, SearchIndex
    from orchestrator.control.search import FoundForm, PlaceForm

PATIENCE = 20.0
"""Seconds for which an index is made before it is searched as far as it is."""
MOST = 100
_WIDE = 1000
"""Columns where there is no terminal."""


def search(repo: Path, options: Namespace) -> int:
    """Print what is found, the newest lifecycle first."""
    others = (options.watch, options.needs_me, options.tag, options.created_after)
    if any(others) or options.created_before or options.worker:
        raise UsageError("--search can be narrowed down with --state, --limit and --cursor alone")
    folder = repo / STATE_FOLDER
    question = SearchQuestion(
        text=options.search,
        states=states_meant(options.state),
        before=options.cursor,
        limit=min(options.limit, MOST),
    )
    with index_of(repo) as index:
        progress = _made(index)
        answer = index.ask(question)
    runs = holder(folder) is not None
    found = found_form(folder / "state.db", answer, progress, now(), runs=runs)
    if options.json:
        say(to_json(found))
        return 0
    for each in found["items"]:
        if options.ids:
            say(each["lifecycle"]["agent_id"])
        else:
            _print(each)
    if not found["items"]:
        tell("Nothing has all of these words; each may be the beginning of a longer one.")
    if not progress.whole:
        tell(f"The search index is not whole yet ({progress.done} of {progress.of}): search again.")
    if found["next"] is not None:
        tell(f"There are more: add --cursor {found['next']}")
    return 0


def _made(index: SearchIndex) -> IndexProgress:
    """Bring the index up to date; the first time that takes a while."""
    progress = index.catch_up(1.0)
    if not progress.whole:
        tell(f"Making the search index: {progress.of} lifecycles, once")
        progress = index.catch_up(PATIENCE)
    return progress


def _print(each: FoundForm) -> None:
    row = each["lifecycle"]
    colour = coloured(sys.stdout, os.environ)
    word = meant(row["state"])
    shown = paint(word, COLOURS.get(word, ""), wanted=colour)
    name = row["agent_id"].removeprefix("agent-")
    title = paint(one_line(each["title"], 100), "bold", wanted=colour)
    say(f"{name}  {title}  {shown}, {span(now() - row['since'])} ago")
    for place in each["found"]:
        say(_place(place, colour=colour))


def _place(place: PlaceForm, *, colour: bool) -> str:
    where = KINDS_IN_WORDS[place["kind"]]
    if place["attempt"] is not None:
        where += f", attempt {place['attempt']}"
    left = (terminal_width(sys.stdout, os.environ) or _WIDE) - len(where) - 6
    text = ""
    for part in place["parts"]:
        # Blanks at the ends of a part stand between words.
        shown = one_line(f".{part['text']}.", 1000)[1:-1]
        text += paint(shown[: max(0, left)], "bold", wanted=colour and part["marked"])
        left -= len(shown)
    return f"    {where}: {text}"
