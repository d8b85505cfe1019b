"""The style sheet, the scripts and the icon: read once, and named by what they hold.

An address that bears the file's own hash may be kept for ever; any other is asked for again.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fastapi import APIRouter
from starlette.responses import Response

from orchestrator.web.edge.access import STATIC
from orchestrator.web.edge.problems import unknown

if TYPE_CHECKING:
    from orchestrator.web.services import ServerServices

FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_KEPT = "public, max-age=31536000, immutable"


class StaticFile(NamedTuple):
    """A file that pages name."""

    body: bytes
    kind: str
    version: str


@cache
def files() -> dict[str, StaticFile]:
    """Return every file by its name."""
    found = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in _TYPES:
            body = path.read_bytes()
            version = hashlib.sha256(body).hexdigest()[:12]
            found[path.name] = StaticFile(body, _TYPES[path.suffix], version)
    return found


def static(name: str) -> str:
    """Return the address of a file, which changes with what it holds."""
    return f"{STATIC}{name}?v={files()[name].version}"


def router(services: ServerServices | None = None) -> APIRouter:
    """Return the addresses."""
    del services
    made = APIRouter(include_in_schema=False)

    @made.get(STATIC + "{name}")
    async def file(name: str, v: str = "") -> Response:
        found = files().get(name)
        if found is None:
            raise unknown(f"there is no file {name!r}", "load the page once more")
        kept = _KEPT if v == found.version else "no-cache"
        return Response(found.body, media_type=found.kind, headers={"cache-control": kept})

    @made.get("/favicon.ico")
    async def icon() -> Response:
        found = files()["icon.svg"]
        return Response(
            found.body, media_type=found.kind, headers={"cache-control": "max-age=86400"}
        )

    return made
