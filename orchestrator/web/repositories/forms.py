"""What is told about repositories as JSON. Names and meanings only."""

from __future__ import annotations

from typing import Literal, TypedDict


class RepositoryForm(TypedDict):
    """A repository that is served."""

    name: str
    """in addresses: /r/NAME/ and /api/v1/repositories/NAME/..."""
    folder: str
    status: str
    """opening, ok, locked, folder, settings, store, failed or ended"""
    trouble: str
    """what is wrong, and what to do; empty if nothing is"""
    since: float
    """when the status became so"""
    again_at: float | None
    """when one that is broken is tried again; null where only POST .../open does so"""
    needs: int
    """tasks that need a person"""
    url: str
    """its pages"""


class RepositoriesForm(TypedDict):
    """All of them."""

    items: list[RepositoryForm]


class HealthOfAll(TypedDict):
    """How the process does, and each repository in a word."""

    status: Literal["ok", "degraded", "ready", "not ready"]
    reason: str
    repositories: dict[str, str]
