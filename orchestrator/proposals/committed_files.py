"""The files that a fresh checkout has, and one proposal for them."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from runtime.git.git import Git
from runtime.git.safe_view import read_small

if TYPE_CHECKING:
    from collections.abc import Iterable

_PASSED_BY = frozenset(
    {"node_modules", "vendor", "third_party", "testdata", "fixtures", "examples", "example"}
)
"""Folders whose projects are not part of the repository."""


@dataclass(slots=True)
class SetupProposal:
    """Settings, and what a person should know about them."""

    setup: list[str] = field(default_factory=list)
    copy: list[str] = field(default_factory=list)
    verify: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    """Programs without which the commands do not run."""
    makes: list[str] = field(default_factory=list)
    """What the set-up creates beside the committed files, as ignore rules for git."""
    notes: list[str] = field(default_factory=list)


class CommittedFiles:
    """The committed files of a repository: what is not committed is in no fresh checkout."""

    def __init__(self, repo: Path, names: Iterable[str]) -> None:
        self.repo = repo
        self.names = frozenset(filter(None, names))

    @classmethod
    def in_index(cls, repo: Path) -> CommittedFiles:
        """List what is committed, or is about to be."""
        listed = Git().run_blocking("ls-files", "-z", cwd=repo)
        return cls(repo, listed.stdout.decode("utf-8", errors="replace").split("\0"))

    def has(self, *names: str) -> str:
        """Return the first of these files that is there."""
        return next((name for name in names if name in self.names), "")

    def text(self, name: str) -> str:
        """Return the text of a file, as it is in the user's checkout."""
        if name not in self.names:
            return ""
        return (read_small(self.repo / name) or b"").decode("utf-8", errors="replace")

    def toml(self, name: str) -> dict[str, Any]:
        """Return a TOML file; empty where it is not valid."""
        try:
            return tomllib.loads(self.text(name))
        except (tomllib.TOMLDecodeError, RecursionError):
            return {}

    def json(self, name: str) -> dict[str, Any]:
        """Return a file with a JSON object; empty where it is not valid."""
        try:
            said = json.loads(self.text(name) or "{}")
        except (ValueError, RecursionError):
            return {}
        return said if isinstance(said, dict) else {}

    def folders_with(self, *names: str) -> list[str]:
        """Return the folders that hold such a file, the top first; `.` is the top."""
        found = {
            str(path.parent)
            for path in map(PurePosixPath, self.names)
            if path.name in names and not _PASSED_BY.intersection(path.parts)
        }
        return sorted(found, key=lambda each: (each != ".", each))


def table(values: dict[str, Any], *path: str) -> dict[str, Any]:
    """Return a nested table; an empty one where there is none."""
    for name in path:
        inner = values.get(name)
        if not isinstance(inner, dict):
            return {}
        values = inner
    return values
