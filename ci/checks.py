"""One check of one commit, as any forge may tell of it."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from ci.events import Excerpt  # noqa: TC001  # pydantic reads the annotation at run time


class CheckState(StrEnum):
    """What a check says, in one word."""

    PASSED = "passed"
    FAILED = "failed"
    PENDING = "pending"


class Check(BaseModel):
    """One check or status of one commit, the newest of its name."""

    model_config = ConfigDict(frozen=True)

    name: str
    state: CheckState
    how: str = ""
    """The forge's own word for it: timed_out, action_required, canceled."""
    summary: str = ""
    excerpt: Excerpt = ""
    """Of the failed step's log, once it was asked for."""
    url: str = ""
    ref: str = ""
    """By which the forge finds it again, to explain it or to run it once more."""
