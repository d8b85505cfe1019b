"""The version of this program."""

from __future__ import annotations

__version__ = "0.1.0"


def version() -> str:
    """Return the version; reading installed metadata would cost more than the command."""
    return __version__
