"""What repositories with packages are made of, for tests of the set-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.lifecycle.world import Step, World


def sh(line: str) -> Step:
    return {"run": {"argv": ["sh", "-c", line]}}


def lock(world: World, *ignored: str) -> None:
    """Commit a repository that uses packages, and ignores what is installed."""
    (world.repo / "lock.txt").write_text("one\n")
    (world.repo / ".gitignore").write_text("\n".join((".venv", "node_modules", *ignored)))
    world.git("add", ".")
    world.git("-c", "user.name=Ada", "-c", "user.email=a@b", "commit", "-qm", "lock what is used")
