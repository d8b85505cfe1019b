"""What a reader finds in a task list, the same for every form; where a task came from. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTask:
    """One task as its list has it."""

    key: str
    """Names it in its list: its id there, or its text where it has none."""
    title: str
    line: int = 0
    """Where it stands, from 1; 0 where that means nothing."""
    description: str = ""
    acceptance: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    """Keys of the tasks that come before it."""
    priority: float | None = None
    """The smaller, the sooner."""
    tags: tuple[str, ...] = ()
    issue: str = ""
    left_out: str = ""
    """Why nothing is to be done: done, cancelled; empty for one that is open."""
    has_id: bool = True
    """The key is an id, and no text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTasks:
    """All that a list holds."""

    form: str
    """What kind of list it is, for people."""
    tasks: tuple[FoundTask, ...]
    branch: str = ""
    """A branch that the list names for its work."""
    problems: tuple[str, ...] = ()
    """What cannot be read, each with its place."""
    by_priority: bool = False
    """The order of priorities stands for dependencies where no task names any."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a text: what stands from start to end is replaced."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TickEdits:
    """What ticks one task in the text of its list."""

    line: int = 0
    """Where the task stands; 0 where it is not there any more."""
    edits: tuple[Edit, ...] = ()
    """Nothing where it is ticked already."""


class ListForm(Protocol):
    """One form of files that hold tasks. No state, no files: only texts."""

    FORM: str
    """Its name for people."""

    def fits(self, name: str, text: str) -> bool:
        """Tell whether a file of this name with this text is of the form."""
        ...

    def read(self, text: str, where: str) -> FoundTasks:
        """Return what it holds; PlanError if the text as a whole cannot be read."""
        ...

    def tick(self, text: str, key: str, when: str) -> TickEdits:
        """Return what marks the task of this key as done; nothing else may change.

        `when` is the instant, in the form of RFC 3339, for lists that keep it.
        """
        ...


def reference(path: Path, repo: Path, key: str) -> str:
    """Return where a task came from, as its plan keeps it: FILE#KEY, from the repository's top."""
    found = path.resolve()
    name = found.relative_to(repo) if found.is_relative_to(repo) else found
    return f"{quote(str(name), safe='/ ')}#{key}"


def file_and_key(source: str) -> tuple[str, str]:
    """Return the parts of a reference to a file; no key where it is none."""
    name, _, key = source.partition("#")
    return unquote(name), key


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with these changes, which do not overlap."""
    for edit in sorted(edits, key=lambda each: each.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def line_at(text: str, place: int) -> int:
    """Return the line of a place in a text, from 1."""
    return text.count("\n", 0, place) + 1


def numbered(texts: Iterable[str]) -> list[str]:
    """Return keys of these texts: the second of the same text gets ` (2)`."""
    seen: dict[str, int] = {}
    keys = []
    for text in texts:
        seen[text] = seen.get(text, 0) + 1
        keys.append(text if seen[text] == 1 else f"{text} ({seen[text]})")
    return keys
