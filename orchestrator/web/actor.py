"""Who asks for a change, as the audit names it."""

from __future__ import annotations

from orchestrator.runner.server_interface import API

LONGEST_NAME = 80
RESERVED = frozenset(("run", "runner", "shutdown", "population", "auto-resume"))
"""Names under which the runner itself acts."""


def header_text(given: str) -> str:
    """Return what a header says: UTF-8, or Latin-1 where a client knows no other."""
    try:
        return given.encode("latin-1").decode()
    except UnicodeError:
        return given


def actor_of(given: str) -> str:
    """Return who asks, for the audit: one short line, never a name of the runner itself."""
    said = " ".join("".join(char if char.isprintable() else " " for char in given).split())
    said = said[:LONGEST_NAME].strip()
    return API if not said or said.lower() in RESERVED else said
