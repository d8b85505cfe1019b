"""Links that sign somebody in once, and tokens of a role, made from the server's token.

Whoever can read that token can make them; the server is not asked.
"""

from __future__ import annotations

import os

from orchestrator.web.edge.passes import LINK_LASTS, PassKind, PassOffice, VisitorRole

TOKEN_LASTS = 90 * 86_400.0


def sign_in_link(
    url: str, token: str, *, now: float, role: VisitorRole = VisitorRole.ADMIN, name: str = ""
) -> str:
    """Return an address that signs somebody in, once and soon."""
    made = PassOffice(token).issue(PassKind.LINK, name or user_name(), role, now + LINK_LASTS)
    return f"{url}/login?token={made}"


def role_token(token: str, *, now: float, role: VisitorRole, name: str) -> str:
    """Return a bearer token that may do what a role may, and acts under a name."""
    return PassOffice(token).issue(PassKind.TOKEN, name, role, now + TOKEN_LASTS)


def user_name() -> str:
    """Return the name of who runs this, as a first proposal at sign-in."""
    return os.environ.get("USER", "") or os.environ.get("LOGNAME", "")
