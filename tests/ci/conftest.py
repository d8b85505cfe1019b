"""What tests of more than one room use: one emulated GitHub for all of a session."""

from __future__ import annotations

from tests.ci.github.emulated import emulated

__all__ = ["emulated"]
