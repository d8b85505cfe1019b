"""What `loopwright review` shows of one lifecycle, and which keys are good for it.

Changes nothing.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.machine.states import Completed
from orchestrator.cli.work_reader import work_reader
from orchestrator.config.known_secrets import masker_of
from orchestrator.config.settings import load_settings
from orchestrator.control.open_store import known, runner_of, store_of
from orchestrator.review import card, diff_text
from orchestrator.review.evidence import evidence, evidence_form
from orchestrator.review.held_summary import held_summary
from orchestrator.review.merge_result import merge_form
from orchestrator.review.own_work import ALL, ReviewError
from orchestrator.review.queue import waiting, waiting_form, ways_of
from orchestrator.review.work_diff import DiffWish
from orchestrator.terminal.text import coloured, now, one_line, safe, tell, terminal_width

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.control.summaries import ShownSummary
    from orchestrator.review.queue import Waiting, WaitingForm
    from orchestrator.review.work_diff import WorkDiff

QUIT, SKIP = "q", "k"
SAYING = ("answer", "guide", "unblock")
_ALWAYS = (("r", "reject"), ("d", "show again"), ("e", "editor"), (SKIP, "skip"), (QUIT, "quit"))
_TYPED = ("pause", "resume", *SAYING)
"""Verbs that a key can carry out for what is no review."""


@dataclass(frozen=True, slots=True)
class Screen:
    """What is shown of one lifecycle."""

    waits: WaitingForm
    text: str
    verb: str = ""
    """What moves on what is no review."""
    diff: WorkDiff | None = None
    comes_along: tuple[str, ...] = ()
    conflicts_with: str = ""
    """The branch that this cannot be merged into as it is."""
    summary: ShownSummary | None = None
    """What a held attempt will be told."""
    to_edit: str = ""

    @property
    def hidden(self) -> list[str]:
        """Files whose lines were not shown."""
        files = self.diff.files if self.diff is not None else ()
        return [each.path for each in files if each.folded]

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The keys, each with what it does."""
        if self.summary is not None:
            return [("a", "approve"), *_ALWAYS]
        if self.waits["needs"] not in ("review", "conflict"):
            return [("n", self.verb), *_ALWAYS] if self.verb else [*_ALWAYS]
        accept = ("w", "accept with what comes along") if self.comes_along else ("a", "accept")
        return [accept, ("s", "send back"), *_ALWAYS]


async def listed(repo: Path, agents: list[str]) -> tuple[Waiting, ...]:
    """Return what waits, of these or of all."""
    has_ci = bool(load_settings(repo, environ=os.environ).providers)
    async with store_of(repo) as store:
        named = [(await known(store, each, repo)).agent_id for each in agents]
        found = await waiting(store, has_ci=has_ci)
        return tuple(each for each in found if not named or each.record.agent_id in named)


async def read_screen(repo: Path, each: Waiting, place: str) -> Screen:
    """Read what there is to show of a lifecycle; `place` is where it stands in the walk."""
    settings = load_settings(repo, environ=os.environ)
    masker = masker_of(os.environ, settings.pass_env)
    record, present = each.record, now()
    runs = runner_of(repo) is not None
    diff, merge = None, None
    async with store_of(repo) as store:
        reader = work_reader(repo, store, settings, masker)
        with suppress(ReviewError):  # its diff tells why
            await reader.bring(record)
        read = await evidence(
            repo, store=store, record=record, settings=settings, now=present, runs=runs
        )
        if isinstance(record.work, Completed):
            merge = await merge_form(
                repo,
                branches=reader.branches,
                store=store,
                record=record,
                settings=settings,
                mask=masker.mask,
            )
        try:
            diff = await reader.diff(record, DiffWish(whole=True))
        except ReviewError as nothing:
            tell(one_line(str(nothing)))
    shown, waits = evidence_form(read), waiting_form(each, settings, present, runs=runs)
    colours = coloured(sys.stdout, os.environ)
    width = terminal_width(sys.stdout, os.environ)
    lines = [
        *card.card(waits, shown, merge, place=place, present=present, width=width, colours=colours)
    ]
    if diff is not None and diff.files:
        lines += ["", *diff_lines(diff)]
    summary, to_edit = None, ""
    if "summary approve {}" in (ways := ways_of(each, settings)):
        summary, to_edit = await held_summary(repo, record.agent_id)
        told = safe(summary.text.rstrip("\n"), lines=True)
        lines += ["", f"Summary that attempt {summary.attempt} will be told:", told]
    verbs = (way.partition(" ")[0] for way in ways)
    return Screen(
        waits,
        masker.mask("\n".join([*lines, ""])),
        next((verb for verb in verbs if verb in _TYPED), ""),
        diff,
        tuple(one["agent_id"] for one in shown["comes_along"]),
        merge["into"] if merge is not None and merge["would"] == "conflict" else "",
        summary,
        to_edit,
    )


def diff_lines(diff: WorkDiff) -> list[str]:
    """Return the files of a diff and then all of it, as the terminal wants it."""
    colours = coloured(sys.stdout, os.environ)
    width = terminal_width(sys.stdout, os.environ)
    stat = diff_text.stat(diff, width=width, colours=colours)
    return [*stat, "", *diff_text.lines(diff, colours=colours)]


async def diff_with_all(repo: Path, agent_id: str) -> WorkDiff:
    """Return the work with what it builds on; ReviewError if there is nothing to look at."""
    settings = load_settings(repo, environ=os.environ)
    masker = masker_of(os.environ, settings.pass_env)
    async with store_of(repo) as store:
        record = await known(store, agent_id, repo)
        reader = work_reader(repo, store, settings, masker)
        return await reader.diff(record, DiffWish(of=ALL, whole=True))
