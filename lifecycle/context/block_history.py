"""What became of each thing that the latest attempt was blocked on, read off the journal.

Says only what was recorded: that a task completed, what CI reported, who unblocked it. What a fact
clears is the machine's rule, which is asked again here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.context.facts import Blocker
from lifecycle.machine.rules.blocks import cleared_by_look, cleared_by_report, free_words

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from lifecycle.machine import events as on
    from lifecycle.machine.states import Signal


class BlockStory:
    """One block, from its signal to the next attempt."""

    def __init__(self) -> None:
        self.reason = ""
        """Why the agent was blocked, in its words."""
        self.attempt = 0
        """Which attempt that was."""
        self._word: Signal | None = None
        self._since = 0.0
        self._names: tuple[str, ...] = ()
        self._tasks: set[str] = set()
        self._head = self._ci = ""
        self._how: dict[str, str] = {}
        self._by_people: set[str] = set()

    def begins(self, word: Signal, at: float, attempt: int) -> None:
        """Take an agent's word that it is blocked."""
        self._word, self._since, self.attempt = word, at, attempt
        self._names, self.reason = word.blocked_on, word.reason

    def captured(self, event: on.SnapshotTaken) -> None:
        """Learn which of what it waits for are tasks."""
        self._names = event.blocked_on or self._names
        self._tasks |= set(event.tasks)
        self._head = event.head

    def looked(self, event: on.BlockersLooked) -> None:
        """Learn which tasks completed, and what CI says of the branch."""
        self._tasks |= {name for name in (*event.tasks, *event.done) if name in self._names}
        self._clear(
            cleared_by_look(event, self._ci, self._open()),
            _ci(f"CI is {event.ci}", self._head, event.text),
        )
        self._ci = event.ci or self._ci
        self._clear(event.done, "task {} completed")

    def reported(self, event: on.FromCi) -> None:
        """Learn what CI reported, or what the caller of the library handed in."""
        what = f"CI is {'green' if event.green else 'red'} ({event.type})"
        if event.handed:
            what = f"an event was handed in: {event.type}"
        cleared = cleared_by_report(event, self._open(), self._head)
        self._clear(cleared, _ci(what, event.sha, event.text))

    def settled(self, event: on.DependencySettled) -> None:
        """Learn that a name is a task."""
        if event.task_id in self._names:
            self._tasks.add(event.task_id)

    def joined(self, event: on.WorkJoined) -> None:
        """Learn whose work the branch holds now."""
        self._tell(event.tasks, "task {} completed and its work is merged into your branch")
        self._tell(event.apart, "task {} completed; its work is still to be merged into yours")

    def let_go(self, by: str, verb: str, text: str) -> None:
        """Take a person's word for all that is still open."""
        left = [name for name in self._all() if name not in self._how]
        said = f"{by or 'a person'} {verb}" + (f": {text}" if text else "")
        self._by_people |= set(left)
        self._how |= dict.fromkeys(left, said)

    @property
    def is_over(self) -> bool:
        """Tell whether nothing is left that it waited for."""
        return self._word is not None and all(name in self._how for name in self._all())

    def blockers(self, completed: Container[str]) -> list[Blocker]:
        """Return all that it waited for, each with what became of it."""
        if self._word is None:
            return []
        return [self._blocker(name, completed) for name in self._all()]

    def _blocker(self, name: str, completed: Container[str]) -> Blocker:
        how = self._how.get(name, "")
        if name in self._by_people and name in self._tasks and name not in completed:
            how += f"; task {name} is not complete"
        what = name or self.reason or "CI"
        return Blocker(what=what, since=self._since, cleared=name in self._how, how=how)

    def _all(self) -> tuple[str, ...]:
        return self._names or ("",)

    def _open(self) -> tuple[str, ...]:
        words = free_words(self._names, self._tasks)
        return tuple(word for word in words if word not in self._how)

    def _clear(self, names: Iterable[str], how: str) -> None:
        for name in names:
            if name in self._all() and name not in self._how:
                self._how[name] = how.replace("{}", name)

    def _tell(self, tasks: Iterable[str], how: str) -> None:
        for task in tasks:
            if task in self._names:
                self._by_people.discard(task)
                self._how[task] = how.format(task)


def _ci(what: str, sha: str, text: str) -> str:
    about = f" for {sha[:12]}" if sha else ""
    return f"{what}{about}" + (f": {text}" if text else "")
