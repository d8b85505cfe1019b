"""One communications.json: validated when read, edited under its lock.

Owns what counts as a signal. Reading must not raise for bad content, nor wait, write, spawn or
kill. Models are built only for an entry that holds a breakpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from communication import words
from communication.errors import ContentError
from communication.locked_edit import LOCK_PATIENCE_S, edit_entry
from communication.model import Breakpoint, MailboxEntry, explain
from communication.safe_json import MAX_BYTES, read_object

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


_SIGNAL_KEYS = ("breakpoint", "lifecycle_state")
_NO_AGENT = "_meta"


class ReadingKind(StrEnum):
    """What one read of a mailbox found for one agent."""

    ABSENT = "absent"
    """No file."""
    QUIET = "quiet"
    """A valid file without a breakpoint of this agent."""
    SIGNAL = "signal"
    STALE = "stale"
    """A breakpoint of another attempt or about another task: never counts."""
    INVALID = "invalid"
    """The file or the entry cannot be trusted, perhaps because it is half written."""


@dataclass(frozen=True, slots=True)
class MailboxReading:
    """The result of one read for one agent."""

    kind: ReadingKind
    breakpoint: Breakpoint | None = None
    problem: str = ""
    entry: MailboxEntry | None = None
    digest: str = ""
    """Equal for the same breakpoint or the same fault; empty if there is neither."""
    cause: Exception | None = field(default=None, compare=False)
    """Why the file could not be read."""


class Document:
    """The content of the file, for any number of agents."""

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
        """Why the whole file cannot be trusted; empty if it can, or is absent."""
        self._digest = _digest(fingerprint) if problem else ""

    def reading(
        self, agent_id: str, *, spawn_id: str | None = None, task_id: str | None = None
    ) -> MailboxReading:
        """Evaluate the agent's entry; identities that are expected and given must match."""
        if self.problem:
            return MailboxReading(
                ReadingKind.INVALID,
                problem=self.problem,
                digest=self._digest,
                cause=self._cause,
            )
        if self._entries is None:
            return MailboxReading(ReadingKind.ABSENT)
        raw = self._entries.get(agent_id)
        if raw is None:
            return MailboxReading(ReadingKind.QUIET)
        if not isinstance(raw, dict):
            return _invalid(f"the entry of {agent_id} is {words.shown(raw)}, not an object", raw)
        word = raw.get("breakpoint")
        if word is None:
            return MailboxReading(ReadingKind.QUIET)
        return _judge(agent_id, raw, word, spawn_id, task_id)

    def entry(self, agent_id: str) -> MailboxEntry | None:
        """Read what the agent tells people, even if its breakpoint is not valid."""
        raw = (self._entries or {}).get(agent_id)
        if not isinstance(raw, dict):
            return None
        entry, _ = _validated(raw)
        if entry is None:
            told = {key: value for key, value in raw.items() if key not in _SIGNAL_KEYS}
            entry, _ = _validated(told)
        return entry

    def requests_to(self, agent_id: str) -> tuple[tuple[str, str], ...]:
        """Collect the requests of other agents to this one or to everyone, as (from, text)."""
        return tuple(
            (sender, text)
            for sender, raw in (self._entries or {}).items()
            if sender not in (agent_id, _NO_AGENT) and isinstance(raw, dict)
            for receiver, text in words.requests(raw.get("requests"))
            if receiver in (agent_id, words.EVERYONE)
        )


class Mailbox:
    """The file through which agents and the runner communicate."""

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = MAX_BYTES,
        lock_patience_s: float = LOCK_PATIENCE_S,
    ) -> None:
        self._path = path
        self._name = os.fspath(path)
        self._max_bytes = max_bytes
        self._lock_patience_s = lock_patience_s

    @property
    def path(self) -> Path:
        """Where the file is, or will be."""
        return self._path

    def stamp(self) -> tuple[int, int, int] | None:
        """Return a stamp that changes with the file, without reading it; None if there is none."""
        try:
            found = os.lstat(self._name)
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def load(self) -> Document:
        """Read the file once; any fault becomes the document's problem."""
        try:
            return Document(read_object(self._name, self._max_bytes))
        except ContentError as error:
            problem = f"invalid {self._path.name}: {error.reason}"
            return Document(None, problem, error.fingerprint, error)

    def clear(self, agent_id: str) -> Path | None:
        """Remove the agent's breakpoint and lifecycle_state, so that only a new signal counts.

        An unreadable file is moved aside; its new path is returned. Raises MailboxError if that
        fails.
        """
        if not self._holds_signal(agent_id):
            return None
        return self.update(agent_id, _without_signal)

    def update(self, agent_id: str, change: Callable[[dict[str, Any]], None]) -> Path | None:
        """Let `change` edit the agent's entry under the lock; everything else in the file is kept.

        An unreadable file is moved aside; its new path is returned. May wait for the lock: on an
        event loop call it in a thread. Raises MailboxError.
        """
        return edit_entry(
            self._path,
            agent_id,
            change,
            max_bytes=self._max_bytes,
            lock_patience_s=self._lock_patience_s,
        )

    def _holds_signal(self, agent_id: str) -> bool:
        try:
            entries = read_object(self._name, self._max_bytes)
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
) -> MailboxReading:
    entry, problem = _validated(raw)
    found = entry.breakpoint if entry else None
    # A foreign breakpoint is stale even if malformed: it is not a fault of this attempt.
    foreign = _mismatch(word, "spawn_id", spawn_id) or _mismatch(word, "task_id", task_id)
    if foreign:
        return MailboxReading(ReadingKind.STALE, found, foreign, entry, _digest(_stable(word)))
    if found is None:
        return _invalid(f"invalid entry of {agent_id}: {problem}", raw)
    itself = words.on_itself(found.type, found.blocked_on, (task_id, agent_id))
    if itself:
        return _invalid(f"invalid entry of {agent_id}: {itself}", raw)
    return MailboxReading(ReadingKind.SIGNAL, found, "", entry, _digest(_stable(word)))


def _validated(raw: dict[str, Any]) -> tuple[MailboxEntry | None, str]:
    try:
        return MailboxEntry.model_validate(raw), ""
    except ValidationError as error:
        return None, explain(error)


def _mismatch(word: Any, key: str, expected: str | None) -> str:
    given = word.get(key) if isinstance(word, dict) else None
    if expected is None or not isinstance(given, str) or given.strip() in ("", expected):
        return ""
    return f"stale breakpoint: its {key} is {words.shown(given)}, this attempt's is {expected!r}"


def _invalid(problem: str, raw: Any) -> MailboxReading:
    return MailboxReading(ReadingKind.INVALID, problem=problem, digest=_digest(_stable(raw)))


def _stable(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
