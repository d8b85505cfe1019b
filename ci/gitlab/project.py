"""The settings of a project on GitLab that decide how, and on what conditions, it merges.

Owns GitLab's names for them and for how long an answer is reused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, MissingError
from ci.forge.json_fields import at, flag, text
from ci.forge.protocol import BranchRules

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci.http.client import HttpClient

LINEAR = frozenset({"ff", "rebase_merge"})
"""Merge methods of a project that keep its history as a rebase does."""
SETTINGS_HOLD = 600.0
"""Seconds for which the settings are reused where nothing is merged by them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSettings:
    """What a project demands of a merge; an edition that lacks a setting has it off."""

    linear: bool = False
    trains: bool = False
    """Merges go through a merge train."""
    pipeline_must_pass: bool = False
    skipped_is_enough: bool = False
    """A skipped pipeline counts as one that passed, where one must pass."""
    status_checks_must_pass: bool = False
    """External status checks hold up a merge."""

    @property
    def rules(self) -> BranchRules:
        """The same for every branch, in the words of all forges."""
        demands = (
            "a pipeline that passed" * self.pipeline_must_pass,
            "all external status checks" * self.status_checks_must_pass,
        )
        return BranchRules(
            up_to_date=self.linear, queue=self.trains, demands=tuple(filter(None, demands))
        )


class GitLabProject:
    """The settings of one project."""

    def __init__(self, http: HttpClient, path: str, *, now: Callable[[], float]) -> None:
        self._http = http
        self._path = path
        self._now = now
        self._known = MergeSettings()
        self._until = float("-inf")

    async def settings(self, *, anew: bool = False) -> MergeSettings:
        """Return them; `anew`: as they are now, as something is merged by them."""
        if anew or self._now() >= self._until:
            try:
                self._known = settings_of((await self._http.get(self._path)).body)
            except (MissingError, ForbiddenError):
                self._known = MergeSettings()
            self._until = self._now() + SETTINGS_HOLD
        return self._known


def settings_of(project: object) -> MergeSettings:
    """Read a project."""
    must_pass = flag(project, "only_allow_merge_if_pipeline_succeeds")
    return MergeSettings(
        linear=text(project, "merge_method") in LINEAR,
        # A train tests merged results: without those there is none.
        trains=flag(project, "merge_trains_enabled")
        and at(project, "merge_pipelines_enabled") is not False,
        pipeline_must_pass=must_pass,
        skipped_is_enough=must_pass and flag(project, "allow_merge_on_skipped_pipeline"),
        status_checks_must_pass=flag(project, "only_allow_merge_if_all_status_checks_passed"),
    )
