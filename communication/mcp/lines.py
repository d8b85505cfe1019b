"""Reads JSON-RPC lines from a program that relays what a model wrote: bounded, cleaned, or refused.

Owns that each request gets an answer: a program may wait forever for the answer to a dropped
request. It must not read anything but the given descriptor.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple

from communication.errors import ContentError
from communication.safe_json import MAX_BYTES, check_shape

MAX_LINE = 2 * MAX_BYTES
"""Bytes of one request: the escapes of JSON may double what would fit into a mailbox."""
PARSE_ERROR = -32700
INVALID_REQUEST = -32600

_CHUNK = 64 * 1024
_EDGE = 4096
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")\s*'
_MEMBER = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*'
_FIRST = re.compile(rb"\A\s*\{\s*(?:" + _MEMBER + rb",\s*){0,2}" + _ID + rb"[,}]")
_LAST = re.compile(rb"[,{]\s*" + _ID + rb"(?:,\s*" + _MEMBER + rb"){0,2}\}\s*\Z")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class Refusal(NamedTuple):
    """Why a line is refused, and which request it was."""

    reason: str
    identity: object = None
    code: int = INVALID_REQUEST


class TooLong(NamedTuple):
    """The edges of a line that was too long to keep."""

    head: bytes
    tail: bytes


class LineReader:
    """Reads a descriptor line by line; blocking, so it is used in a thread."""

    def __init__(self, descriptor: int, limit: int = MAX_LINE) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._rest = bytearray()
        self._ended = False

    def read(self) -> bytes | TooLong | None:
        """Return the next line that is not blank, None at the end."""
        looked = 0
        while True:
            end = self._rest.find(b"\n", looked)
            if end >= 0 or (self._ended and self._rest):
                line = bytes(self._rest[: end if end >= 0 else len(self._rest)])
                del self._rest[: len(line) + 1]
                looked = 0
                if line.strip():
                    return line
            elif self._ended:
                return None
            elif len(self._rest) > self._limit:
                return self._skipped()
            else:
                looked = len(self._rest)
                self._more()

    def _skipped(self) -> TooLong:
        """Drop a line except for its edges."""
        head = bytes(self._rest[:_EDGE])
        while (end := self._rest.find(b"\n")) < 0 and not self._ended:
            del self._rest[:-_EDGE]
            self._more()
        tail = bytes(self._rest[: end if end >= 0 else len(self._rest)][-_EDGE:])
        del self._rest[: end + 1 if end >= 0 else len(self._rest)]
        return TooLong(head, tail)

    def _more(self) -> None:
        chunk = os.read(self._descriptor, _CHUNK)
        self._ended = not chunk
        self._rest += chunk


def decoded(line: bytes | TooLong) -> dict[str, Any] | Refusal:
    """Parse the object in a line, without characters that a mailbox refuses."""
    if isinstance(line, TooLong):
        reason = f"the request is longer than {MAX_LINE:,} bytes; say less"
        return Refusal(reason, identity_of(line.head, line.tail))
    try:
        check_shape(line)
        # A request with invalid bytes or half surrogates must still get its answer.
        value = json.loads(line.decode("utf-8", "replace"))
        if _SURROGATE.search(line):
            value = _tidied(value)
    except ContentError as error:
        return Refusal(f"the request cannot be taken: {error.reason}", identity_of(line, line))
    except (ValueError, RecursionError):
        return Refusal("this is not JSON", identity_of(line, line), PARSE_ERROR)
    if not isinstance(value, dict):
        return Refusal("one request a line, as a JSON object")
    return value


def identity_of(head: bytes, tail: bytes) -> object:
    """Return the id of a request that cannot be parsed: it is at the start or at the end."""
    found = _FIRST.search(head[:_EDGE]) or _LAST.search(tail[-_EDGE:])
    if found is None:
        return None
    try:
        return json.loads(found[1])
    except ValueError:
        return None


def refusal_line(refusal: Refusal) -> bytes:
    """Return the answer to a refused request."""
    known = isinstance(refusal.identity, int | str) and not isinstance(refusal.identity, bool)
    answer = {
        "jsonrpc": "2.0",
        "id": refusal.identity if known else None,
        "error": {"code": refusal.code, "message": refusal.reason},
    }
    return json.dumps(answer).encode() + b"\n"


def _tidied(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_tidied(item) for item in value]
    if isinstance(value, dict):
        return {_tidied(key): _tidied(item) for key, item in value.items()}
    return value
