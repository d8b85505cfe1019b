"""What an answer says: its JSON, its links, or the error that it is.

Owns the rules from status, headers and bytes to our errors and their texts. Pure: it asks nobody.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ci.budget import next_window, retry_after
from ci.errors import (
    ForbiddenError,
    ForgeError,
    GarbledError,
    LimitedError,
    MissingError,
    RefusedError,
    UnauthorizedError,
    UnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

REDIRECTS = 300
CLIENT_ERRORS = 400
SERVER_ERRORS = 500
MESSAGE_LIMIT = 500
"""Characters of a forge's own words in an error."""
SHOWN = 80
"""Characters shown of an answer that makes no sense."""
PATH_LIMIT = 200
HIDDEN_IN = 64 * 1024
"""Bytes of a foreign text that are looked at to say what it is."""
SECONDARY_WAIT = 60.0
"""Seconds to wait after a limit that names no time, as GitHub asks for."""
SHORTEST_SECRET = 4
"""Characters. What is shorter occurs everywhere by chance."""

_LIMITED = re.compile(r"rate limit|abuse detection|too many requests", re.IGNORECASE)
_LINK = re.compile(r"<([^<>]*)>\s*((?:;[^,<]*)*)")
_NEXT = re.compile(r";\s*rel\s*=\s*\"?(?:[^\";]*\s)?next(?:\s[^\";]*)?\"?", re.IGNORECASE)
_TOKEN_FAULTS: dict[int, tuple[type[ForgeError], str]] = {
    401: (UnauthorizedError, "is wrong or over"),
    403: (ForbiddenError, "does not allow this"),
}
_MISSING = frozenset({404, 410})
_REFUSALS = frozenset({405, 409, 412, 422, 423})


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `body` may be shared with the kept copy: read it, never change it."""

    status: int
    """Of the answer that the body came with: 200, also when it is unchanged."""
    body: Any = None
    """The parsed JSON; None if there was no body."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    unchanged: bool = False
    """The server said 304: the body is the kept one."""


@dataclass(frozen=True, slots=True)
class Raw:
    """An answer as it came over the wire."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Place:
    """What was asked and of whom: how an error names it. Never the query, it may hold secrets."""

    method: str
    host: str
    url: str
    advice: str
    """What to do about a token that does not do."""
    signed: Mapping[str, str]
    """The headers that sign us in, which are never shown."""

    def __str__(self) -> str:
        path = urlsplit(self.url).path
        return f"{self.method} {self.host}{path[:PATH_LIMIT]}"

    def __repr__(self) -> str:
        return str(self)

    def text(self, problem: str) -> str:
        """Return the whole text of an error, with no secret in it."""
        return self.hide(f"{self}: {problem}")

    def hide(self, text: str) -> str:
        """Return the text without our secrets; do so before it is cut, which may split one."""
        for secret in secrets_of(self.signed):
            text = text.replace(secret, "***")
        return text


def one_line(text: str, most: int) -> str:
    """Return foreign text as one line without control characters, capped."""
    plain = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(plain.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def secrets_of(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return all in the headers that sign us in which must never be shown, the longest first."""
    found: set[str] = set()
    for value in headers.values():
        scheme, _, last = value.rpartition(" ")
        found |= {value, last}
        if scheme.lower() == "basic":
            try:
                pair = base64.b64decode(last, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                continue
            found |= {pair, pair.partition(":")[2]}
    return tuple(sorted((s for s in found if len(s) >= SHORTEST_SECRET), key=len, reverse=True))


def parse(place: Place, raw: Raw, *, required: bool) -> Any:
    """Return the JSON of an answer; `required`: an answer without a body is none."""
    if not raw.body.strip():
        if required:
            raise garbled(place, raw.status, "the answer is empty")
        return None
    kind = raw.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not (kind.endswith(("/json", "+json"))):
        begins = _shown(place, raw.body)
        named = one_line(kind, SHOWN) or "nothing"
        raise garbled(place, raw.status, f"expected JSON, the answer says it is {named}: {begins}")
    try:
        return json.loads(raw.body, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"at character {error.pos}"
    except UnicodeDecodeError as error:
        where = f"at byte {error.start}"
    except (ValueError, RecursionError):
        where = "of numbers or depths that no forge sends"
    raise garbled(place, raw.status, f"the answer is no JSON {where}: {_shown(place, raw.body)}")


def garbled(place: Place, status: int, problem: str) -> GarbledError:
    """Return the error of an answer that is none."""
    return GarbledError(place.text(problem), status=status)


def fault_of(place: Place, raw: Raw, now: float) -> ForgeError | None:
    """Return the error that an answer is; None if it is none."""
    status, host = raw.status, place.host
    if status < REDIRECTS:
        return None
    words = _own_words(place, raw)
    said = f" ({words})" if words else ""
    kind: type[ForgeError] = ForgeError
    until = _limited_until(raw, words, now)
    if until is not None:
        kind, problem = LimitedError, f"its rate limit is used up for {until - now:.0f} s{said}"
    elif status >= SERVER_ERRORS:
        kind, problem = UnreachableError, f"{host} has trouble of its own{said}"
        until = retry_after(raw.headers, now)
    elif status in _TOKEN_FAULTS:
        kind, trouble = _TOKEN_FAULTS[status]
        problem = f"the token of {host} {trouble}: {place.advice}{said}"
    elif status in _MISSING:
        kind, problem = MissingError, f"there is no such thing, or the token may not see it{said}"
    elif status in _REFUSALS:
        kind, problem = RefusedError, words or "refused"
    elif status < CLIENT_ERRORS:
        problem = "it has moved, and where to is not followed: set its new address"
    else:
        problem = words or "the request is not understood"
    return kind(place.text(f"{status}: {problem}"), status=status, retry_at=until)


def next_link(headers: Mapping[str, str]) -> str | None:
    """Return the address of the next page, if there is one."""
    for address, parameters in _LINK.findall(headers.get("link", "")):
        if _NEXT.search(parameters):
            return str(address)
    return None


def _limited_until(raw: Raw, words: str, now: float) -> float | None:
    if raw.status not in (403, 429):
        return None
    told = retry_after(raw.headers, now)
    if told is None:
        told = next_window(raw.headers, now)
    if told is not None:
        return max(told, now + 1.0)
    if raw.status == 429 or _LIMITED.search(words):  # noqa: PLR2004  # too many requests
        return now + SECONDARY_WAIT
    return None


def _own_words(place: Place, raw: Raw) -> str:
    """Return what the forge itself says about an error, as one line."""
    try:
        body = json.loads(raw.body)
    except (ValueError, RecursionError):
        kind = raw.headers.get("content-type", "")
        plain = raw.body[:HIDDEN_IN].decode("utf-8", "replace") if "text/plain" in kind else ""
        return one_line(place.hide(plain), MESSAGE_LIMIT)
    if not isinstance(body, dict):
        return ""
    message = body.get("message") or body.get("error_description") or body.get("error") or ""
    parts = [message if isinstance(message, str) else json.dumps(message)]
    errors = body.get("errors")
    for each in errors if isinstance(errors, list) else ():
        inner = each.get("message") if isinstance(each, dict) else each
        parts.append(inner if isinstance(inner, str) else json.dumps(each))
    return one_line(place.hide(": ".join(part for part in parts if part)), MESSAGE_LIMIT)


def _shown(place: Place, body: bytes) -> str:
    return repr(one_line(place.hide(body[:HIDDEN_IN].decode("utf-8", "replace")), SHOWN))


def _no_constant(name: str) -> Any:
    raise ValueError(name)
