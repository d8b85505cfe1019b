"""What `loopwright plan` asks: whether to write a draft, edit it, or have another one made."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from lifecycle.errors import PlanError
from lifecycle.paths import Paths
from orchestrator.cli.draft_lifecycle import DraftAsksError, DraftFailedError
from orchestrator.drafting.check import CheckedDraft, checked
from orchestrator.drafting.draft_task import FILE, DraftRequest
from orchestrator.drafting.show import shown
from orchestrator.terminal import exits, pager
from orchestrator.terminal.keys import ask_key, ask_line
from orchestrator.terminal.options import UsageError
from orchestrator.terminal.text import one_line, say, tell, terminal_width, to_json
from runtime.private_files import make_private

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orchestrator.cli.draft_rounds import DraftRounds

_MENU = {"y": "write it", "e": "edit", "g": "another draft", "n": "leave it"}


@dataclass(slots=True)
class PlanDialog:
    """One command, from the goal to the file."""

    rounds: DraftRounds
    output: Path
    goal: str
    most: int
    """Drafts altogether."""
    asks: bool
    writes: bool
    prints_json: bool
    made: int = 0

    def run(self) -> int:
        """Have drafts made until one is written or left; returns the exit code."""
        request, draft = DraftRequest(self.goal), None
        while True:
            try:
                draft, request = self._usable(request)
            except DraftFailedError as problem:
                if draft is None or not self.asks or problem.by_signal:
                    raise
                tell(f"There is no other draft: {one_line(str(problem))}")
            if not self.asks:
                return self._ended(draft)
            said = self._decided(draft)
            if isinstance(said, int):
                return said
            # Of what the person edited, too, the next draft is to make a better one.
            draft, words = said
            request = DraftRequest(self.goal, (*request.said, words), draft.text, draft.problems)

    # --- drafts -------------------------------------------------------------------------------

    def _usable(self, request: DraftRequest) -> tuple[CheckedDraft, DraftRequest]:
        """Return the first draft that can be run, else the last one."""
        while True:
            try:
                draft, request = self._drafted(request)
            except PlanError as problem:
                if not self.rounds.used.attempts:
                    raise  # nothing was started: the program is not there
                if self.made >= self.most:
                    raise DraftFailedError(str(problem), exits.FAILED) from problem
                request = replace(request, problems=(str(problem),))
            else:
                if draft.is_good or self.made >= self.most:
                    return draft, request
                request = replace(request, former=draft.text, problems=draft.problems)
            self._tell_problems(request.problems)

    def _drafted(self, request: DraftRequest) -> tuple[CheckedDraft, DraftRequest]:
        """Have one draft made; what the agent asks first is a person's to answer."""
        while True:
            self.made += 1
            try:
                text = self.rounds.draft(request)
            except DraftAsksError as question:
                request = replace(request, said=(*request.said, self._answer(str(question))))
            else:
                self._keep(text)
                return checked(text, self.rounds.around), request

    def _tell_problems(self, problems: Iterable[str]) -> None:
        for problem in problems:
            tell(f"draft {self.made} of {self.most}: {one_line(problem)}")

    def _answer(self, question: str) -> str:
        words = None
        if self.asks and self.made < self.most:
            say(f"The agent asks: {one_line(question)}")
            words = ask_line("Your answer (empty: no plan): ")
        if not words:
            raise DraftFailedError(f"the agent asks: {question}", exits.BLOCKED)
        return f"To your question ({one_line(question, 200)}): {words}"

    def _keep(self, text: str) -> None:
        folder = Paths.of(self.rounds.context.repo).root / "drafts"
        make_private(folder)
        (folder / FILE).write_text(text, "utf-8")

    # --- the person ---------------------------------------------------------------------------

    def _decided(self, draft: CheckedDraft) -> int | tuple[CheckedDraft, str]:
        """Ask until it is written or left (the exit code), or another draft is wanted."""
        while True:
            width = terminal_width(sys.stdout, os.environ)
            say(shown(draft, self.rounds.context.settings().verify, width))
            keys = self._keys(draft)
            menu = "  ".join(f"[{key}] {_MENU[key]}" for key in keys)
            key = ask_key(f"{one_line(self._name())}: {menu}\n> ", os.environ)
            if key == "y" and "y" in keys and self._written(draft):
                return exits.COMPLETE
            if key == "g" and "g" in keys and (said := ask_line("What should be different? ")):
                return draft, said
            if key == "e":
                draft = self._edited(draft)
            elif key in ("n", ""):
                kept = Paths.of(self.rounds.context.repo).root / "drafts" / FILE
                tell(f"No plan is written. The newest draft is kept in {one_line(str(kept))}")
                return exits.BLOCKED
            elif key not in keys:
                tell("That is none of the keys.")

    def _keys(self, draft: CheckedDraft) -> tuple[str, ...]:
        """Return what can be done; a person may write what has a gate that is not there yet."""
        able = {"y": draft.plan is not None, "g": self.made < self.most}
        return tuple(key for key in _MENU if able.get(key, True))

    def _edited(self, draft: CheckedDraft) -> CheckedDraft:
        with tempfile.TemporaryDirectory(prefix="loopwright-plan-") as folder:
            path = Path(folder) / self.output.name
            path.write_text(draft.text, "utf-8")
            try:
                pager.edit(path, os.environ)
            except pager.NoEditorError as problem:
                tell(one_line(str(problem)))
                return draft
            text = path.read_text("utf-8", "replace")
        self._keep(text)
        return checked(text, self.rounds.around)

    def _name(self) -> str:
        here = Path.cwd()
        inside = self.output.is_relative_to(here)
        return str(self.output.relative_to(here) if inside else self.output)

    # --- the file -----------------------------------------------------------------------------

    def _written(self, draft: CheckedDraft) -> bool:
        """Write it; a file that is there is replaced on a yes alone."""
        name = one_line(self._name())
        if os.path.lexists(self.output):
            key = ask_key(f"{name} exists. Replace it? [y] yes  [n] no\n> ", os.environ)
            if key != "y":
                return False
        self._write(draft.text)
        self._say_next(draft)
        return True

    def _say_next(self, draft: CheckedDraft) -> None:
        """Say what was written, and what to type next, or to set before."""
        name, settings = self._name(), self.rounds.context.settings()
        then = f"loopwright up {quote(name)}"
        if not (settings.command or settings.adapter or settings.agents):
            then = f"set `adapter` or `command` in loopwright.toml, then: {then}"
        say(one_line(f"Written to {name}: {_tasks(draft)}. Next: {then}"))

    def _write(self, text: str) -> None:
        """Write it beside and rename it, so that a plan is there whole or as it was before."""
        target = self.output.resolve()  # a link stays one
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=target.parent, prefix=".plan-", delete=False
        ) as made:
            made.write(text)
        beside = Path(made.name)
        try:
            beside.chmod(0o666 & ~_umask())
            beside.replace(target)
        except OSError:
            beside.unlink(missing_ok=True)
            raise

    def _ended(self, draft: CheckedDraft) -> int:
        """Write and print what nobody is asked about."""
        writes = self.writes and draft.is_good
        if writes:
            if os.path.lexists(self.output):
                raise UsageError(f"{self.output} is there by now; name another file with --output")
            self._write(draft.text)
        if self.prints_json:
            say(to_json(self._form(draft, written=writes)))
        elif writes:
            say(shown(draft, self.rounds.context.settings().verify, 0))
            self._say_next(draft)
        if draft.is_good:
            return exits.COMPLETE
        self._tell_problems(draft.problems)
        raise DraftFailedError(f"none of {self.made} drafts can be run", exits.FAILED)

    def _form(self, draft: CheckedDraft, *, written: bool) -> dict[str, object]:
        return {
            "plan": None if draft.plan is None else draft.plan.model_dump(mode="json"),
            "text": draft.text,
            "problems": list(draft.problems),
            "written_to": str(self.output) if written else None,
            "drafts": self.made,
            "used": self.rounds.used.to_json(),
        }


def _tasks(draft: CheckedDraft) -> str:
    count = len(draft.plan.tasks) if draft.plan is not None else 0
    return "1 task" if count == 1 else f"{count} tasks"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
