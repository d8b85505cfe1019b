"""Responses: their JSON, links, end and lines, and the errors that they mean.

Owns the rules from status, headers and bytes to our errors and their texts. Pure.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

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
from ci.http.rate_limit import next_window, retry_after

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REDIRECTS = 300
CLIENT_ERRORS = 400
SERVER_ERRORS = 500
MESSAGE_LIMIT = 500
"""Characters of a forge's own words in an error."""
SHOWN = 80
"""Characters shown of an unusable answer."""
PATH_LIMIT = 200
HIDDEN_IN = 64 * 1024
"""Bytes of a foreign text that are read for an error message."""
SECONDARY_WAIT = 60.0
"""Seconds to wait after a limit without a time, as GitHub asks for."""
SHORTEST_SECRET = 4
"""Characters. Anything shorter occurs everywhere by chance."""

LONGEST_CHARACTER = 4
"""Bytes in UTF-8."""
_CONTINUATIONS = bytes(range(0x80, 0xC0))
_LIMITED = re.compile(r"rate limit|abuse detection|too many requests", re.IGNORECASE)
_LINK = re.compile(r"<([^<>]*)>\s*((?:;[^,<]*)*)")
_NEXT = re.compile(r";\s*rel\s*=\s*\"?(?:[^\";]*\s)?next(?:\s[^\";]*)?\"?", re.IGNORECASE)
_TOKEN_FAULTS: dict[int, tuple[type[ForgeError], str]] = {
    401: (UnauthorizedError, "is wrong or has expired"),
    403: (ForbiddenError, "does not allow this"),
}
_MISSING = frozenset({404, 410})
_REFUSALS = frozenset({405, 409, 412, 422, 423})
_PASSING = frozenset({408, 429})
"""Refusals of the moment: too slow, too many."""


@dataclass(frozen=True, slots=True)
class Response:
    """A parsed response. `body` may be shared with the cache: never change it."""

    status: int
    """Of the response that the body belongs to: 200, also when it is unchanged."""
    body: Any = None
    """The parsed JSON; None if there was no body."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    unchanged: bool = False
    """The server said 304: the body is the cached one."""


@dataclass(frozen=True, slots=True)
class RawResponse:
    """A response as received."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The request that an error names. Never with its query, which may hold secrets."""

    method: str
    host: str
    url: str
    advice: str
    """What to do about a token that is refused."""
    signed: Mapping[str, str]
    """The headers with credentials, which are never shown."""

    def __str__(self) -> str:
        path = urlsplit(self.url).path
        return f"{self.method} {self.host}{path[:PATH_LIMIT]}"

    def __repr__(self) -> str:
        return str(self)

    def text(self, problem: str) -> str:
        """Return the whole text of an error, with no secret in it."""
        return self.hide(f"{self}: {problem}")

    def hide(self, text: str) -> str:
        """Return the text without our secrets; call it before cutting, which may split one."""
        for secret in secrets_of(self.signed):
            text = text.replace(secret, "***")
        return text


def one_line(text: str, most: int) -> str:
    """Return foreign text as one line without control characters, truncated."""
    plain = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(plain.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def secrets_of(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return all secrets in the headers with credentials, the longest first."""
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


def parse(context: RequestContext, raw: RawResponse, *, required: bool) -> Any:
    """Return the JSON of a response; `required`: an empty body is an error."""
    if not raw.body.strip():
        if required:
            raise garbled(context, raw.status, "the answer is empty")
        return None
    kind = raw.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not (kind.endswith(("/json", "+json"))):
        begins = _shown(context, raw.body)
        named = one_line(kind, SHOWN) or "nothing"
        raise garbled(
            context, raw.status, f"expected JSON, the answer says it is {named}: {begins}"
        )
    try:
        return json.loads(raw.body, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"at character {error.pos}"
    except UnicodeDecodeError as error:
        where = f"at byte {error.start}"
    except (ValueError, RecursionError):
        where = "(numbers or nesting out of range)"
    raise garbled(
        context, raw.status, f"the answer is not valid JSON {where}: {_shown(context, raw.body)}"
    )


def garbled(context: RequestContext, status: int, problem: str) -> GarbledError:
    """Return the error of an unusable response."""
    return GarbledError(context.text(problem), status=status)


def fault_of(context: RequestContext, raw: RawResponse, now: float) -> ForgeError | None:
    """Return the error that a response means; None for a success."""
    status, host = raw.status, context.host
    if status < REDIRECTS:
        return None
    words = _own_words(context, raw)
    said = f" ({words})" if words else ""
    kind: type[ForgeError] = ForgeError
    until = _limited_until(raw, words, now)
    if until is not None:
        kind, problem = LimitedError, f"its rate limit is used up for {until - now:.0f} s{said}"
    elif status >= SERVER_ERRORS:
        kind, problem = UnreachableError, f"{host} reports a server error{said}"
        until = retry_after(raw.headers, now)
    elif status in _TOKEN_FAULTS:
        kind, trouble = _TOKEN_FAULTS[status]
        problem = f"the token of {host} {trouble}: {context.advice}{said}"
    elif status in _MISSING:
        kind, problem = MissingError, f"not found, or the token may not see it{said}"
    elif status in _REFUSALS:
        kind, problem = RefusedError, words or "refused"
    elif status < CLIENT_ERRORS:
        problem = "it has moved, and this redirect is not followed: set the new address"
    else:
        problem = words or "the request is not understood"
    return kind(context.text(f"{status}: {problem}"), status=status, retry_at=until)


def lasts(status: int) -> bool:
    """Return whether a request that was answered so will be refused again."""
    return CLIENT_ERRORS <= status < SERVER_ERRORS and status not in _PASSING


def next_link(headers: Mapping[str, str]) -> str | None:
    """Return the address of the next page, if there is one."""
    for address, parameters in _LINK.findall(headers.get("link", "")):
        if _NEXT.search(parameters):
            return str(address)
    return None


def _limited_until(raw: RawResponse, words: str, now: float) -> float | None:
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


def _own_words(context: RequestContext, raw: RawResponse) -> str:
    """Return the forge's own error message, as one line."""
    try:
        body = json.loads(raw.body)
    except (ValueError, RecursionError):
        kind = raw.headers.get("content-type", "")
        plain = raw.body[:HIDDEN_IN].decode("utf-8", "replace") if "text/plain" in kind else ""
        return one_line(context.hide(plain), MESSAGE_LIMIT)
    if not isinstance(body, dict):
        return ""
    message = body.get("message") or body.get("error_description") or body.get("error") or ""
    parts = [message if isinstance(message, str) else json.dumps(message)]
    errors = body.get("errors")
    for each in errors if isinstance(errors, list) else ():
        inner = each.get("message") if isinstance(each, dict) else each
        parts.append(inner if isinstance(inner, str) else json.dumps(each))
    return one_line(context.hide(": ".join(part for part in parts if part)), MESSAGE_LIMIT)


def _shown(context: RequestContext, body: bytes) -> str:
    return repr(one_line(context.hide(body[:HIDDEN_IN].decode("utf-8", "replace")), SHOWN))


def _no_constant(name: str) -> Any:
    raise ValueError(name)


class TailBuffer:
    """Collects the last `most` bytes of a body."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = b""
        self._before = False
        """Earlier bytes were dropped."""
        self._note = ""

    def add(self, step: bytes) -> None:
        """Add the next bytes, dropping what is too far from the end."""
        kept = self._kept + step
        self._before = self._before or len(kept) > self._most
        self._kept = kept[-self._most :] if self._most else b""

    def note(self, text: str) -> None:
        """Set a note that is appended to the text."""
        self._note = text

    def text(self) -> str:
        """Return the bytes as text that begins with a whole character."""
        kept = self._kept
        if self._before:
            begin = kept[:LONGEST_CHARACTER]
            kept = begin.lstrip(_CONTINUATIONS) + kept[LONGEST_CHARACTER:]
        return kept.decode("utf-8", "replace") + self._note


class LineSplitter:
    """Splits a streamed body into lines, none longer than `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun: list[bytes] = []
        self._length = 0
        self.full = False
        """A line exceeded the limit."""

    def feed(self, step: bytes) -> Iterator[str]:
        """Yield the lines that are now complete."""
        *complete, rest = step.split(b"\n")
        for each in complete:
            line = b"".join([*self._begun, each])
            self._begun, self._length = [], 0
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
        self._begun.append(rest)
        self._length += len(rest)
        self.full = self._length > self._most
