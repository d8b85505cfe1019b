"""What signs a person or a program in besides the token itself: links, sessions, tokens of a role.

Each is a statement (who, as what, until when) that is signed with the token, so that nothing secret
is stored, a restart ends no session, and a new token ends all. Must not know requests.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from orchestrator.errors import OrchestratorError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LINK_LASTS = 15 * 60.0
SESSION_LASTS = 14 * 86_400.0
LONGEST = 1024
_BEGIN = "lw1"
_PARTS = 3


class VisitorRole(StrEnum):
    """What one may do; each may also do what those before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def covers(self, other: VisitorRole) -> bool:
        """Tell whether it may do what the other may."""
        order = list(VisitorRole)
        return order.index(self) >= order.index(other)


class PassKind(StrEnum):
    """What a pass is for."""

    LINK = "link"
    """Signs in once."""
    SESSION = "session"
    """What a browser keeps."""
    TOKEN = "token"  # noqa: S105  # the name of a kind
    """What a program sends."""


class SpentPassError(OrchestratorError):
    """A link was used already."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A statement that somebody may use the server."""

    kind: PassKind
    id: str
    name: str
    role: VisitorRole
    until: float
    place: str = ""
    """The one repository that it is for, as name and mark; empty for all."""


def mark_of_place(repo: Path) -> str:
    """Return what tells a repository from all others: names go to others when some are left out."""
    return hashlib.sha256(str(repo).encode()).hexdigest()[:16]


class PassOffice:
    """Issues passes of one token and reads them."""

    def __init__(self, token: str) -> None:
        self._key = hashlib.sha256(b"loopwright passes\0" + token.encode()).digest()

    def issue(
        self, kind: PassKind, name: str, role: VisitorRole, until: float, place: str = ""
    ) -> str:
        """Return a new pass as text."""
        told = [kind, secrets.token_hex(8), name, role, round(until), *([place] if place else [])]
        body = _text(json.dumps(told, separators=(",", ":")).encode())
        return f"{_BEGIN}.{body}.{self._seal(body)}"

    def read(self, text: str, kind: PassKind, now: float) -> Pass | None:
        """Return what a pass says; nothing if it is not ours, of another kind, or too old."""
        parts = text.split(".") if len(text) <= LONGEST and text.isascii() else []
        if len(parts) != _PARTS or parts[0] != _BEGIN:
            return None
        if not hmac.compare_digest(parts[2], self._seal(parts[1])):
            return None
        try:
            said, id_, name, role, until, *place = json.loads(_bytes(parts[1]))
        except (ValueError, binascii.Error):
            return None
        if said != kind or now >= until:
            return None
        return Pass(kind, id_, name, VisitorRole(role), until, *place)

    def guard_of(self, session: str) -> str:
        """Return what a form must bear besides the cookie of a session (against forgery)."""
        return hmac.new(self._key, b"form\0" + session.encode(), hashlib.sha256).hexdigest()[:40]

    def _seal(self, body: str) -> str:
        return _text(hmac.new(self._key, body.encode(), hashlib.sha256).digest())


class SpentPasses:
    """Passes that count no more: links that were used, sessions that were ended."""

    def __init__(self, keep: Callable[[str, float], None] | None = None) -> None:
        """`keep` is told each, to remember it over a restart."""
        self._until: dict[str, float] = {}
        self._keep = keep

    def learn(self, id_: str, until: float) -> None:
        """Take in what an earlier runner kept."""
        self._until[id_] = until

    def has(self, shown: Pass) -> bool:
        """Tell whether a pass counts no more."""
        return shown.id in self._until

    def spend(self, shown: Pass) -> None:
        """End a pass; raises `SpentPassError` if that happened already."""
        if shown.id in self._until:
            raise SpentPassError("this link was used already")
        self._until[shown.id] = shown.until
        if self._keep is not None:
            self._keep(shown.id, shown.until)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
