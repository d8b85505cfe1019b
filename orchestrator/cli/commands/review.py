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
from lifecycle.machine.states import attempt_of
from orchestrator.cli.commands.diff import core_pager
from orchestrator.cli.review_screen import (
    QUIT,
    SAYING,
    SKIP,
    diff_lines,
    diff_with_all,
    listed,
    read_screen,
)
from orchestrator.cli.review_settings import settings_are_decided
from orchestrator.config.settings import load_settings
from orchestrator.control import commands
from orchestrator.control.approve_settings import note
from orchestrator.control.open_store import runner_of, store_of
from orchestrator.control.people_only import require_person
from orchestrator.control.summaries import SummaryError
from orchestrator.review import card, line_comments
from orchestrator.review.held_summary import held_summary, replace_summary
from orchestrator.review.marks import TOGETHER, Comment, guidance
from orchestrator.review.own_work import ReviewError
from orchestrator.review.queue import moved_by_a_runner, waiting_form
from orchestrator.terminal import exits, pager
from orchestrator.terminal.keys import ask_key, ask_line
from orchestrator.terminal.options import CommandLineParser, find_repo, user
from orchestrator.terminal.text import (
    now,
    one_line,
    say,
    tell,
    terminal_width,
    to_json,
    wrapped,
)

if TYPE_CHECKING:
    from orchestrator.cli.review_screen import Screen
    from orchestrator.control.summaries import ShownSummary
    from orchestrator.review.queue import Waiting


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
        found = asyncio.run(listed(repo, options.agents))
        runs, present = runner_of(repo) is not None, now()
        settings = load_settings(repo, environ=os.environ)
        forms = [waiting_form(each, settings, present, runs=runs) for each in found]
        say(to_json({"items": forms}))
        return 0
    require_person(repo, name)
    walk = _Walk(repo, options.agents, options.by or user(), paged=not options.no_pager)
    return walk.run()


async def _moved_by_a_runner(repo: Path) -> tuple[str, ...]:
    async with store_of(repo) as store:
        return await moved_by_a_runner(store)


def _mark(each: Waiting) -> tuple[object, ...]:
    """Return what tells one thing to decide about a lifecycle from the next."""
    work = each.record.work
    return each.needs, each.head, attempt_of(work) if work is not None else 0


@dataclass(slots=True)
class _Walk:
    repo: Path
    agents: list[str]
    by: str
    paged: bool = True
    comments: dict[str, tuple[Comment, ...]] = field(default_factory=dict)
    passed: dict[str, tuple[object, ...]] = field(default_factory=dict)
    """What was decided or skipped of each; what comes back otherwise is shown again."""

    def run(self) -> int:
        """Show one after the other until nothing is left or the person ends it."""
        many, key = 0, ""
        while key != QUIT and (fresh := self._fresh()):
            many += 1
            key = self._decide(fresh[0], f"{many} of {many - 1 + len(fresh)}")
        settled = bool(self.agents) or settings_are_decided(self.repo, self.by, asked=key != QUIT)
        left = [each.record.task_id for each in asyncio.run(listed(self.repo, self.agents))]
        left += [] if settled else ["changed settings"]
        if left:
            self._say(f"Still waiting: {', '.join(left)}")
        else:
            say("Nothing waits for you any more." if many else "Nothing waits for you.")
        self._say_what_goes_on()
        return exits.BLOCKED if left else exits.COMPLETE

    def _fresh(self) -> list[Waiting]:
        found = asyncio.run(listed(self.repo, self.agents))
        return [each for each in found if self.passed.get(each.record.agent_id) != _mark(each)]

    def _say_what_goes_on(self) -> None:
        """Name what a runner moves on, such as what was sent back, and what to type then."""
        if not (moved := asyncio.run(_moved_by_a_runner(self.repo))):
            return
        one, names = len(moved) == 1, ", ".join(moved)
        tasks = "1 task" if one else f"{len(moved)} tasks"
        if runner_of(self.repo) is None:
            still = f"{tasks} {'stands' if one else 'stand'} still: {names}"
            self._say(f"No runner is alive. Until one is, {still}")
            say("Next: loopwright up   (continues all of them)")
        else:
            self._say(f"{tasks} {'goes' if one else 'go'} on: {names}")
            say("Next: loopwright ps --watch   (and `loopwright review` once something needs you)")

    @staticmethod
    def _say(text: str) -> None:
        width = terminal_width(sys.stdout, os.environ)
        flat = one_line(text)
        say("\n".join(wrapped(flat, width, links=True)) if width else flat)

    def _decide(self, each: Waiting, place: str) -> str:
        """Show it until a key decides it, passes it over, or ends the walk; return that key."""
        screen = self._look(each, place)
        while True:
            width = terminal_width(sys.stdout, os.environ)
            key = ask_key(f"{card.menu(screen.choices, width)}\n> ", os.environ) or QUIT
            if key not in dict(screen.choices):
                tell("That is none of the keys.")
                continue
            anew = key == "d" or (key == "e" and self._edit(screen))
            decided = key in (QUIT, SKIP) or (key not in "de" and self._done(screen, key))
            fresh = each if decided else asyncio.run(self._again(screen))
            if decided or fresh is None:
                self.passed[each.record.agent_id] = _mark(each)
                return key
            if anew or fresh.record.version != each.record.version:
                each, screen = fresh, self._look(fresh, place)

    async def _again(self, screen: Screen) -> Waiting | None:
        """Return the lifecycle as it is now, if it still waits."""
        found = await listed(self.repo, [screen.waits["agent_id"]])
        return found[0] if found else None

    def _look(self, each: Waiting, place: str) -> Screen:
        screen = asyncio.run(read_screen(self.repo, each, place))
        self._show(screen)
        return screen

    def _show(self, screen: Screen) -> None:
        if self.paged:
            pager.show(screen.text, os.environ, core_pager)
        else:
            sys.stdout.write(screen.text)

    def _edit(self, screen: Screen) -> bool:
        """Open what waits in the editor; tell whether it has to be shown again."""
        if screen.summary is not None:
            return self._edit_summary(screen, screen.summary)
        self._comment(screen)
        return False

    def _edit_summary(self, screen: Screen, summary: ShownSummary) -> bool:
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

    def _approved(self, screen: Screen, shown: ShownSummary) -> bool:
        agent_id = screen.waits["agent_id"]
        if asyncio.run(held_summary(self.repo, agent_id))[0].version != shown.version:
            tell("not done: the summary changed since it was shown; [k] skips it, then look again")
            return False
        return self._ordered("approve", agent_id)

    def _accepted_along(self, screen: Screen) -> bool:
        """Show all that would be merged, name whose it is, and merge that after a yes."""
        agent_id, head = screen.waits["agent_id"], screen.waits["head"]
        try:
            diff = asyncio.run(diff_with_all(self.repo, agent_id))
        except ReviewError as nothing:
            tell(one_line(str(nothing)))
            return False
        if any(each.folded for each in diff.files):
            tell(one_line(f"not accepted: some of it could not be shown here; look at it, then: "
                          f"loopwright accept {agent_id} --with-dependencies "
                          f"--expect-head {head}"))  # fmt: skip
            return False
        self._show(replace(screen, text="\n".join([*diff_lines(diff), ""])))
        self._say(f"With {agent_id} comes the work of {', '.join(screen.comes_along)}.")
        if ask_key("Accept all of it? [y] yes  [n] no\n> ", os.environ) != "y":
            return False
        return self._ordered("accept", agent_id, expect_head=head, along=True)

    def _comment(self, screen: Screen) -> None:
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
            kept = "1 comment is" if len(found) == 1 else f"{len(found)} comments are"
            say(f"{kept} kept; [s] sends {'it' if len(found) == 1 else 'them'} to the agent")

    def _done(self, screen: Screen, key: str) -> bool:
        """Carry out what a key asks for; tell whether it was."""
        chosen = {
            "a": self._accepted,
            "w": self._accepted_along,
            "r": self._rejected,
            "s": self._sent_back,
            "n": self._moved_on,
        }
        return chosen[key](screen)

    def _accepted(self, screen: Screen) -> bool:
        agent_id, head = screen.waits["agent_id"], screen.waits["head"]
        if screen.summary is not None:
            return self._approved(screen, screen.summary)
        if screen.hidden:
            listed = ", ".join(screen.hidden[:5])
            tell(one_line(f"not accepted: {listed} could not be shown here; look at it, then: "
                          f"loopwright accept {agent_id} --expect-head {head}"))  # fmt: skip
            return False
        return self._ordered("accept", agent_id, expect_head=head)

    def _rejected(self, screen: Screen) -> bool:
        why = ask_line("Why? (it is for the record; empty: not rejected) ")
        return bool(why) and self._ordered("reject", screen.waits["agent_id"], why=why)

    def _sent_back(self, screen: Screen) -> bool:
        agent_id, into = screen.waits["agent_id"], screen.conflicts_with
        kept = self.comments.get(agent_id, ())
        unsaid = TOGETHER.format(into) if into else ""
        if kept:
            empty = f", sent with {len(kept)} comment{'s' if len(kept) > 1 else ''}"
        else:
            empty = f'; empty: "{unsaid}"' if into else "; empty: not sent"
        said = ask_line(f"What is missing? (one line{empty}) ")
        if said is None:
            return False
        text = guidance(said or unsaid, kept)
        return bool(text) and self._ordered("guide", agent_id, text=text)

    def _moved_on(self, screen: Screen) -> bool:
        verb, text = screen.verb, ""
        if verb in SAYING:
            optional = verb == "unblock"
            prompt = "What shall it know? (one line; empty: nothing more) "
            said = ask_line(
                prompt if optional else f"Your {'answer' if verb == 'answer' else 'words'}: "
            )
            if said is None or not (said or optional):
                return False
            text = said
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
        self._say(f"{agent_id}: {outcome.text}")
        if outcome.hint:
            self._say(outcome.hint)
        return outcome.exit_code == exits.COMPLETE
