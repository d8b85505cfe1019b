"""What goes wrong with a request, as every client gets it: one form, a code, and what to do.

Owns the form and the list of codes. Must not know which endpoint it was.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Send

LONGEST = 2000
"""Characters of a text, which may quote what a client sent."""
JSON_TYPE = (b"content-type", b"application/json")


@dataclass(eq=False)
class Problem(Exception):  # noqa: N818  # it is an answer, raised where it is found
    """An answer that refuses a request."""

    status: int
    code: str
    text: str
    what_to_do: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> bytes:
        """Return the JSON."""
        told = {
            "code": self.code,
            "text": self.text[:LONGEST],
            "what_to_do": self.what_to_do[:LONGEST],
        }
        return json.dumps({"error": told}).encode()

    async def send(self, send: Send) -> None:
        """Answer with it, outside of any framework."""
        body = self.body()
        more = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        length = (b"content-length", str(len(body)).encode())
        await send(
            {
                "type": "http.response.start",
                "status": self.status,
                "headers": [JSON_TYPE, length, *more],
            }
        )
        await send({"type": "http.response.body", "body": body})


def unknown(what: str, what_to_do: str) -> Problem:
    """Say that it does not exist."""
    return Problem(404, "unknown", what, what_to_do)


def refused(text: str, what_to_do: str = "") -> Problem:
    """Say that the present state does not allow it."""
    return Problem(409, "refused", text, what_to_do)


def invalid(text: str, what_to_do: str = "see /openapi.json") -> Problem:
    """Say that the request is invalid."""
    return Problem(422, "invalid", text, what_to_do)


def too_large(most: int) -> Problem:
    """Say that a body is too long; the connection ends with it."""
    return Problem(
        413,
        "too_large",
        f"the body is longer than {most} bytes",
        "send less at once",
        {"connection": "close"},
    )


def too_slow(seconds: float) -> Problem:
    """Say that a body did not arrive in time; the connection ends with it."""
    return Problem(
        408,
        "too_slow",
        f"the body did not arrive within {seconds:g} s",
        "send it again in one piece",
        {"connection": "close"},
    )


def busy(text: str) -> Problem:
    """Say that too much is asked for at once."""
    return Problem(503, "busy", text, "try again in a moment", {"retry-after": "1"})


def store_failed(text: str) -> Problem:
    """Say that the records cannot be read or written at present."""
    return Problem(
        503,
        "store",
        text,
        "make room on the disk or end what locks the database; it is tried again by itself",
        {"retry-after": "2"},
    )


def internal() -> Problem:
    """Say that it is an internal error; the log has the details."""
    return Problem(
        500,
        "internal",
        "an internal error of loopwright; the request may have had no effect",
        "see .loopwright/runner.log, and report what it says",
    )
