"""One communications.json: judged when read, edited under its lock.

Owns what counts as a signal. Reading never raises for bad content and never waits; it must not
write, spawn or kill. Models are built only for an entry that holds a breakpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from communication import words
from communication.editing import LOCK_PATIENCE_S, edit_entry
from communication.errors import ContentError
from communication.jsonfile import MAX_BYTES, MAX_DEPTH, read_object

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from communication.model import Breakpoint, MailboxEntry

_SIGNAL_KEYS = ("breakpoint", "lifecycle_state")
_NO_AGENT = "_meta"


class ReadingKind(StrEnum):
    """What one look at a mailbox found for one agent."""

    ABSENT = "absent"
    """No file."""
    QUIET = "quiet"
    """A good file without a breakpoint of this agent."""
    SIGNAL = "signal"
    STALE = "stale"
    """A breakpoint of another attempt or about another task: never counts."""
    INVALID = "invalid"
    """The file or the entry cannot be trusted, perhaps because it is half written."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The verdict on one look."""

    kind: ReadingKind
    breakpoint: Breakpoint | None = None
    problem: str = ""
    entry: MailboxEntry | None = None
    digest: str = ""
    """The same for the same breakpoint or the same fault; empty when there is neither."""
    cause: Exception | None = field(default=None, compare=False)
    """What the file could not be read for."""


class Document:
    """What one look at the file found, for any number of agents."""

    __slots__ = ("_cause", "_digest", "_entries", "problem")

    def __init__(
        self,
        entries: dict[str, Any] | None,
        problem: str = "",
        fingerprint: bytes = b"",
        cause: Exception | None = None,
    ) -> None:
        self._entries = entries
        self._cause = cause
        self.problem = problem
        """Why the file as a whole cannot be trusted; empty if it can, or is absent."""
        self._digest = _digest(fingerprint) if problem else ""

    def reading(
        self, agent_id: str, *, spawn_id: str | None = None, task_id: str | None = None
    ) -> Reading:
        """Judge the agent's entry; identities that are expected and given must match."""
        if self.problem:
            return Reading(
                ReadingKind.INVALID,
                problem=self.problem,
                digest=self._digest,
                cause=self._cause,
            )
        if self._entries is None:
            return Reading(ReadingKind.ABSENT)
        raw = self._entries.get(agent_id)
        if raw is None:
            return Reading(ReadingKind.QUIET)
        if not isinstance(raw, dict):
            return _invalid(f"the entry of {agent_id} is {words.shown(raw)}, not an object", raw)
        word = raw.get("breakpoint")
        if word is None:
            return Reading(ReadingKind.QUIET)
        return _judge(agent_id, raw, word, spawn_id, task_id)

    def entry(self, agent_id: str) -> MailboxEntry | None:
        """Read what the agent tells people, also when its breakpoint is not valid."""
        raw = (self._entries or {}).get(agent_id)
        if not isinstance(raw, dict):
            return None
        entry, _ = _validated(raw)
        if entry is None:
            told = {key: value for key, value in raw.items() if key not in _SIGNAL_KEYS}
            entry, _ = _validated(told)
        return entry

    def requests_to(self, agent_id: str) -> tuple[tuple[str, str], ...]:
        """Collect what the other agents ask of this one or of everyone, as (from, text)."""
        return tuple(
            (sender, text)
            for sender, raw in (self._entries or {}).items()
            if sender not in (agent_id, _NO_AGENT) and isinstance(raw, dict)
            for receiver, text in words.requests(raw.get("requests"))
            if receiver in (agent_id, words.EVERYONE)
        )


class Mailbox:
    """The file through which agents and the runner speak."""

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = MAX_BYTES,
        max_depth: int = MAX_DEPTH,
        lock_patience_s: float = LOCK_PATIENCE_S,
    ) -> None:
        self._path = path
        self._name = os.fspath(path)
        self._max_bytes = max_bytes
        self._max_depth = max_depth
        self._lock_patience_s = lock_patience_s

    @property
    def path(self) -> Path:
        """Where the file is, or will be."""
        return self._path

    def stamp(self) -> tuple[int, int, int] | None:
        """Tell versions of the file apart without reading it; None if there is none."""
        try:
            found = os.lstat(self._name)
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def load(self) -> Document:
        """Look at the file once; whatever is wrong with it becomes the document's problem."""
        try:
            return Document(read_object(self._name, self._max_bytes, self._max_depth))
        except ContentError as error:
            problem = f"invalid {self._path.name}: {error.reason}"
            return Document(None, problem, error.fingerprint, error)

    def clear(self, agent_id: str) -> Path | None:
        """Remove the agent's breakpoint and lifecycle_state, so that only a new word can count.

        A file that cannot be read is set aside; its new place is returned. Raises MailboxError if
        that cannot be done.
        """
        if not self._holds_signal(agent_id):
            return None
        return self.update(agent_id, _without_signal)

    def update(self, agent_id: str, change: Callable[[dict[str, Any]], None]) -> Path | None:
        """Let `change` edit the agent's entry under the lock; everything else in the file is kept.

        A file that cannot be read is set aside; its new place is returned. May wait for the lock:
        call it from a thread where waiting hurts. Raises MailboxError.
        """
        return edit_entry(
            self._path,
            agent_id,
            change,
            max_bytes=self._max_bytes,
            max_depth=self._max_depth,
            lock_patience_s=self._lock_patience_s,
        )

    def _holds_signal(self, agent_id: str) -> bool:
        try:
            entries = read_object(self._name, self._max_bytes, self._max_depth)
        except ContentError:
            return True
        raw = (entries or {}).get(agent_id)
        return raw is not None and (
            not isinstance(raw, dict) or any(key in raw for key in _SIGNAL_KEYS)
        )


def _without_signal(entry: dict[str, Any]) -> None:
    for key in _SIGNAL_KEYS:
        entry.pop(key, None)


def _judge(
    agent_id: str, raw: dict[str, Any], word: Any, spawn_id: str | None, task_id: str | None
) -> Reading:
    entry, problem = _validated(raw)
    found = entry.breakpoint if entry else None
    # Another's word is stale even if it is badly formed: this attempt must not answer for it.
    foreign = _mismatch(word, "spawn_id", spawn_id) or _mismatch(word, "task_id", task_id)
    if foreign:
        return Reading(ReadingKind.STALE, found, foreign, entry, _digest(_stable(word)))
    if found is None:
        return _invalid(f"invalid entry of {agent_id}: {problem}", raw)
    itself = words.on_itself(found.type, found.blocked_on, (task_id, agent_id))
    if itself:
        return _invalid(f"invalid entry of {agent_id}: {itself}", raw)
    return Reading(ReadingKind.SIGNAL, found, "", entry, _digest(_stable(word)))


def _validated(raw: dict[str, Any]) -> tuple[MailboxEntry | None, str]:
    from pydantic import ValidationError  # noqa: PLC0415  # a quiet mailbox never pays for it

    from communication.model import MailboxEntry, explain  # noqa: PLC0415  # as above

    try:
        return MailboxEntry.model_validate(raw), ""
    except ValidationError as error:
        return None, explain(error)


def _mismatch(word: Any, key: str, expected: str | None) -> str:
    given = word.get(key) if isinstance(word, dict) else None
    if expected is None or not isinstance(given, str) or given.strip() in ("", expected):
        return ""
    return f"stale breakpoint: its {key} is {words.shown(given)}, this attempt's is {expected!r}"


def _invalid(problem: str, raw: Any) -> Reading:
    return Reading(ReadingKind.INVALID, problem=problem, digest=_digest(_stable(raw)))


def _stable(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
