"""Links that sign somebody in once, and tokens of a role, made from the server's token.

Whoever can read that token can make them; the server is not asked.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from orchestrator.web.edge.passes import (
    LINK_LASTS,
    PassKind,
    PassOffice,
    VisitorRole,
    mark_of_place,
)

if TYPE_CHECKING:
    from pathlib import Path

PLACES = "/r/"
"""How the path of a repository begins that is served beside others."""
TOKEN_LASTS = 90 * 86_400.0


def sign_in_link(  # noqa: PLR0913  # all by name
    url: str,
    token: str,
    *,
    now: float,
    role: VisitorRole = VisitorRole.ADMIN,
    name: str = "",
    place: str = "",
) -> str:
    """Return an address that signs somebody in, once and soon; at a `place` for that one alone."""
    until = now + LINK_LASTS
    made = PassOffice(token).issue(PassKind.LINK, name or user_name(), role, until, place)
    return f"{url}/login?token={made}"


def role_token(token: str, *, now: float, role: VisitorRole, name: str, place: str = "") -> str:
    """Return a bearer token that may do what a role may, and acts under a name."""
    return PassOffice(token).issue(PassKind.TOKEN, name, role, now + TOKEN_LASTS, place)


def place_of(repo: Path, url: str) -> str:
    """Return what a sign-in says that is for one repository alone: its name, and its mark.

    The name is that of its address, if it is served beside others at present.
    """
    name = urlsplit(url).path.removeprefix(PLACES).strip("/") or repo.name
    return f"{name} {mark_of_place(repo)}"


def user_name() -> str:
    """Return the name of who runs this, as a first proposal at sign-in."""
    return os.environ.get("USER", "") or os.environ.get("LOGNAME", "")
