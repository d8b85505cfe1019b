"""The version of this program; reading it from installed metadata costs more than a command."""

from __future__ import annotations

__version__ = "0.2.0"
