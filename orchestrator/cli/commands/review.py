"""`loopwright review`: walks through what waits for a person's decision.

Merges nothing that it did not show: what is accepted is the commit on the screen, or nothing.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifecycle.errors import LifecycleError
from lifecycle.machine.states import Completed
from orchestrator.cli.commands.diff import core_pager
from orchestrator.config.known_secrets import masker_of
from orchestrator.config.settings import load_settings
from orchestrator.control import commands
from orchestrator.control.approve_settings import note
from orchestrator.control.open_store import known, runner_of, store_of
from orchestrator.control.people_only import require_person
from orchestrator.control.summaries import SummaryError
from orchestrator.review import card, diff_text, line_comments
from orchestrator.review.evidence import evidence, evidence_form
from orchestrator.review.held_summary import held_summary, replace_summary
from orchestrator.review.marks import Comment, guidance
from orchestrator.review.merge_result import merge_form
from orchestrator.review.own_work import ALL, ReviewError
from orchestrator.review.queue import moved_by_a_runner, waiting, waiting_form, ways_of
from orchestrator.review.work_diff import DiffWish, WorkReader
from orchestrator.terminal import exits, pager
from orchestrator.terminal.keys import ask_key, ask_line
from orchestrator.terminal.options import CommandLineParser, find_repo, user
from orchestrator.terminal.text import (
    coloured,
    now,
    one_line,
    safe,
    say,
    tell,
    terminal_width,
    to_json,
)
from runtime.branches import BranchManager

if TYPE_CHECKING:
    from orchestrator.control.summaries import ShownSummary
    from orchestrator.review.queue import Waiting, WaitingForm
    from orchestrator.review.work_diff import WorkDiff

QUIT = "q"
_WORK = (("a", "accept"), ("s", "send back"))
_ALWAYS = (("r", "reject"), ("d", "show again"), ("e", "editor"), ("k", "skip"), (QUIT, "quit"))
_SAYING = ("answer", "guide")
_TYPED = ("pause", "resume", "unblock", *_SAYING)
"""Verbs that this can carry out for what is no review."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Walk through everything that waits for your decision: the agent's words, the evidence, "
        "the diff; then accept, send back, reject, answer or skip.",
        example=f"loopwright {name}\nloopwright {name} T001 T002\nloopwright {name} --json",
        more="First what holds up others, dependencies before what builds on them, flagged work\n"
        "before plain, and last what was given up. Only the commit that was shown is merged.\n"
        f"In the editor, lines that begin with {line_comments.SIGN} are comments for the agent.\n"
        "Exit codes: 0 nothing waits any more, 3 something still does.",
    )
    made.add_argument("agents", nargs="*", metavar="AGENT", help="only these; by default all")
    made.add_argument("--no-pager", action="store_true", help="print each diff all at once")
    made.with_by()
    return made.with_json("print what waits as JSON, in order").with_repo()


def run(name: str, args: list[str]) -> int:
    """Walk."""
    options = parser(name).parse_args(args)
    repo = find_repo(options.repo)
    if options.json:
        listed = asyncio.run(_listed(repo, options.agents))
        runs, present = runner_of(repo) is not None, now()
        say(to_json({"items": [waiting_form(each, present, runs=runs) for each in listed]}))
        return 0
    require_person(repo, name)
    walk = _Walk(repo, options.agents, options.by or user(), paged=not options.no_pager)
    return walk.run()


async def _listed(repo: Path, agents: list[str]) -> tuple[Waiting, ...]:
    has_ci = bool(load_settings(repo, environ=os.environ).providers)
    async with store_of(repo) as store:
        named = [(await known(store, each, repo)).agent_id for each in agents]
        found = await waiting(store, has_ci=has_ci)
        return tuple(each for each in found if not named or each.record.agent_id in named)


async def _moved_by_a_runner(repo: Path) -> tuple[str, ...]:
    async with store_of(repo) as store:
        return await moved_by_a_runner(store)


@dataclass(frozen=True, slots=True)
class _Screen:
    """What is shown of one lifecycle."""

    waits: WaitingForm
    text: str
    verbs: tuple[str, ...]
    diff: WorkDiff | None = None
    comes_along: tuple[str, ...] = ()
    summary: ShownSummary | None = None
    """What a held attempt will be told."""
    to_edit: str = ""

    @property
    def is_work(self) -> bool:
        return self.waits["needs"] in ("review", "conflict")

    @property
    def hidden(self) -> list[str]:
        """Files whose lines were not shown."""
        files = self.diff.files if self.diff is not None else ()
        return [each.path for each in files if each.folded]

    @property
    def choices(self) -> list[tuple[str, str]]:
        way = next((verb for verb in self.verbs if verb in _TYPED), "")
        first = _WORK if self.is_work else (("n", way),) if way else ()
        if self.is_work and self.comes_along:
            first = (*first, ("w", "accept with what comes along"))
        elif self.summary is not None:
            first = (("a", "approve"),)
        return [*first, *_ALWAYS]


@dataclass(slots=True)
class _Walk:
    repo: Path
    agents: list[str]
    by: str
    paged: bool = True
    comments: dict[str, tuple[Comment, ...]] = field(default_factory=dict)

    def run(self) -> int:
        """Show one after the other until nothing is left or the person ends it."""
        passed: set[str] = set()
        total = len(asyncio.run(_listed(self.repo, self.agents)))
        if not total:
            say("Nothing waits for you.")
            self._say_what_stands_still()
            return exits.COMPLETE
        while True:
            left = asyncio.run(_listed(self.repo, self.agents))
            fresh = [each for each in left if each.record.agent_id not in passed]
            if not fresh:
                break
            total = max(total, len(passed) + len(fresh))
            place = f"{len(passed) + 1} of {total}"
            if self._decide(fresh[0], place) == QUIT:
                break
            passed.add(fresh[0].record.agent_id)
        left = asyncio.run(_listed(self.repo, self.agents))
        if not left:
            say("Nothing waits for you any more.")
            self._say_what_stands_still()
            return exits.COMPLETE
        say(one_line(f"Still waiting: {', '.join(each.record.task_id for each in left)}"))
        return exits.BLOCKED

    def _say_what_stands_still(self) -> None:
        """Name what goes on only once a runner is alive, such as what was sent back."""
        if runner_of(self.repo) is None and (still := asyncio.run(_moved_by_a_runner(self.repo))):
            these = "1 task stands" if len(still) == 1 else f"{len(still)} tasks stand"
            listed = ", ".join(still)
            say(one_line(f"No runner is alive. Until one is, {these} still: {listed}"))
            say("Next: loopwright up   (continues all of them)")

    def _decide(self, each: Waiting, place: str) -> str:
        """Return the key that ended it; with an empty one it is shown again."""
        screen = asyncio.run(self._screen(each, place))
        self._show(screen)
        while True:
            width = terminal_width(sys.stdout, os.environ)
            key = ask_key(f"{card.menu(screen.choices, width)}\n> ", os.environ)
            if key in ("", QUIT, "k"):
                return key or QUIT
            if key == "d":
                self._show(screen)
            elif key == "e":
                if self._edit(screen):
                    screen = asyncio.run(self._screen(each, place))
                    self._show(screen)
            elif key not in dict(screen.choices):
                tell("That is none of the keys.")
            elif self._done(screen, key):
                return key
            else:
                fresh = asyncio.run(self._again(screen))
                if fresh is None:
                    return key
                if fresh.record.version != each.record.version:
                    each, screen = fresh, asyncio.run(self._screen(fresh, place))
                    self._show(screen)

    async def _again(self, screen: _Screen) -> Waiting | None:
        """Return the lifecycle as it is now, if it still waits."""
        found = await _listed(self.repo, [screen.waits["agent_id"]])
        return found[0] if found else None

    def _show(self, screen: _Screen) -> None:
        if self.paged:
            pager.show(screen.text, os.environ, core_pager)
        else:
            sys.stdout.write(screen.text)

    async def _screen(self, each: Waiting, place: str) -> _Screen:
        settings = load_settings(self.repo, environ=os.environ)
        masker = masker_of(os.environ, settings.pass_env)
        branches, record, present = BranchManager(self.repo), each.record, now()
        runs = runner_of(self.repo) is not None
        diff = None
        async with store_of(self.repo) as store:
            reader = WorkReader(branches, store, lambda: settings, cleaned=masker.mask_bytes)
            read = await evidence(
                self.repo, store=store, record=record, settings=settings, now=present, runs=runs
            )
            merge = None
            if isinstance(record.work, Completed):
                merge = await merge_form(
                    self.repo, branches=branches, store=store, record=record, settings=settings
                )
            try:
                diff = await reader.diff(record, DiffWish(whole=True))
            except ReviewError as nothing:
                tell(one_line(str(nothing)))
        shown, waits = evidence_form(read), waiting_form(each, present, runs=runs)
        colours = coloured(sys.stdout, os.environ)
        width = terminal_width(sys.stdout, os.environ)
        lines = [
            *card.card(
                waits, shown, merge, place=place, present=present, width=width, colours=colours
            )
        ]
        if diff is not None and diff.files:
            lines += ["", *diff_text.stat(diff, width=width, colours=colours), ""]
            lines += diff_text.lines(diff, colours=colours)
        summary, to_edit = None, ""
        if "summary approve {}" in ways_of(each):
            summary, to_edit = await held_summary(self.repo, record.agent_id)
            told = safe(summary.text.rstrip("\n"), lines=True)
            lines += ["", f"Summary that attempt {summary.attempt} will be told:", told]
        text = masker.mask("\n".join([*lines, ""]))
        verbs = tuple(way.partition(" ")[0] for way in ways_of(each))
        along = tuple(one["agent_id"] for one in shown["comes_along"])
        return _Screen(waits, text, verbs, diff, along, summary, to_edit)

    def _edit(self, screen: _Screen) -> bool:
        """Open what waits in the editor; tell whether it has to be shown again."""
        if screen.summary is not None:
            return self._edit_summary(screen, screen.summary)
        self._comment(screen)
        return False

    def _edit_summary(self, screen: _Screen, summary: ShownSummary) -> bool:
        agent_id = screen.waits["agent_id"]
        with tempfile.TemporaryDirectory(prefix="loopwright-review-") as folder:
            path = Path(folder) / "summary.md"
            path.write_text(screen.to_edit, "utf-8")
            try:
                pager.edit(path, os.environ)
                text = path.read_text("utf-8", "replace")
                if text == screen.to_edit:
                    return False
                asyncio.run(
                    replace_summary(self.repo, agent_id, text, by=self.by, version=summary.version)
                )
            except (pager.NoEditorError, SummaryError) as problem:
                tell(one_line(str(problem)))
                return isinstance(problem, SummaryError)
        say(f"attempt {summary.attempt} will be told your text; [a] approves it")
        return True

    def _approved(self, screen: _Screen, shown: ShownSummary) -> bool:
        agent_id = screen.waits["agent_id"]
        if asyncio.run(held_summary(self.repo, agent_id))[0].version != shown.version:
            tell("not done: the summary changed since it was shown; [k] skips it, then look again")
            return False
        return self._ordered("approve", agent_id)

    async def _diff_along(self, agent_id: str) -> WorkDiff:
        settings = load_settings(self.repo, environ=os.environ)
        masker = masker_of(os.environ, settings.pass_env)
        async with store_of(self.repo) as store:
            record = await known(store, agent_id, self.repo)
            branches = BranchManager(self.repo)
            reader = WorkReader(branches, store, lambda: settings, cleaned=masker.mask_bytes)
            return await reader.diff(record, DiffWish(of=ALL, whole=True))

    def _accepted_along(self, screen: _Screen) -> bool:
        """Show all that would be merged, name whose it is, and merge that after a yes."""
        agent_id, head = screen.waits["agent_id"], screen.waits["head"]
        try:
            diff = asyncio.run(self._diff_along(agent_id))
        except ReviewError as nothing:
            tell(one_line(str(nothing)))
            return False
        if any(each.folded for each in diff.files):
            tell(one_line(f"not accepted: some of it could not be shown here; look at it, then: "
                          f"loopwright accept {agent_id} --with-dependencies "
                          f"--expect-head {head}"))  # fmt: skip
            return False
        colours, width = coloured(sys.stdout, os.environ), terminal_width(sys.stdout, os.environ)
        lines = [*diff_text.stat(diff, width=width, colours=colours), ""]
        lines += diff_text.lines(diff, colours=colours)
        self._show(replace(screen, text="\n".join([*lines, ""])))
        say(one_line(f"With {agent_id} comes the work of {', '.join(screen.comes_along)}."))
        if ask_key("Accept all of it? [y] yes  [n] no\n> ", os.environ) != "y":
            return False
        return self._ordered("accept", agent_id, expect_head=head, along=True)

    def _comment(self, screen: _Screen) -> None:
        """Open what is shown in the editor, and take the comments that come back."""
        if screen.diff is None or not screen.diff.files:
            tell("There is no diff to open.")
            return
        with tempfile.TemporaryDirectory(prefix="loopwright-review-") as folder:
            path = Path(folder) / f"{screen.waits['task_id']}.diff"
            path.write_text(line_comments.as_text(screen.diff), "utf-8")
            try:
                pager.edit(path, os.environ)
            except pager.NoEditorError as problem:
                tell(one_line(str(problem)))
                return
            found = line_comments.read_back(screen.diff, path.read_text("utf-8", "replace"))
        agent_id = screen.waits["agent_id"]
        self.comments[agent_id] = found
        if found:
            say(f"{len(found)} comments are kept; [s] sends them to the agent")

    def _done(self, screen: _Screen, key: str) -> bool:
        """Carry out what a key asks for; tell whether it was."""
        chosen = {
            "a": self._accepted,
            "w": self._accepted_along,
            "r": self._rejected,
            "s": self._sent_back,
            "n": self._moved_on,
        }
        return chosen[key](screen)

    def _accepted(self, screen: _Screen) -> bool:
        agent_id, head = screen.waits["agent_id"], screen.waits["head"]
        if screen.summary is not None:
            return self._approved(screen, screen.summary)
        if screen.hidden:
            listed = ", ".join(screen.hidden[:5])
            tell(one_line(f"not accepted: {listed} could not be shown here; look at it, then: "
                          f"loopwright accept {agent_id} --expect-head {head}"))  # fmt: skip
            return False
        return self._ordered("accept", agent_id, expect_head=head)

    def _rejected(self, screen: _Screen) -> bool:
        why = ask_line("Why? (it is for the record; empty: not rejected) ")
        return bool(why) and self._ordered("reject", screen.waits["agent_id"], why=why)

    def _sent_back(self, screen: _Screen) -> bool:
        agent_id = screen.waits["agent_id"]
        kept = self.comments.get(agent_id, ())
        with_them = f", sent with {len(kept)} comments" if kept else "; empty: not sent"
        text = guidance(ask_line(f"What is missing? (one line{with_them}) "), kept)
        return bool(text) and self._ordered("guide", agent_id, text=text)

    def _moved_on(self, screen: _Screen) -> bool:
        verb, text = next(verb for verb in screen.verbs if verb in _TYPED), ""
        if verb in _SAYING:
            text = ask_line(f"Your {'answer' if verb == 'answer' else 'words'}: ")
            if not text:
                return False
        return self._ordered(verb, screen.waits["agent_id"], text=text)

    def _ordered(self, verb: str, agent_id: str, **more: Any) -> bool:
        """Carry out a command of a person, with what it holds beside its verb."""
        command = commands.OperatorCommand(
            verb=verb,
            agent_id=agent_id,
            by=self.by,
            settle_s=float("inf") if verb == "accept" else None,
            progress=tell,
            **more,
        )
        try:
            if verb == "accept":
                asyncio.run(note(self.repo, os.environ, self.by))
            outcome = asyncio.run(commands.steer(self.repo, command))
        except LifecycleError as refusal:
            tell(one_line(f"not done: {refusal}"))
            return False
        say(one_line(f"{agent_id}: {outcome.text}"))
        if outcome.hint:
            tell(one_line(outcome.hint))
        return outcome.exit_code == exits.COMPLETE
