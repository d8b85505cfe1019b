"""Failures of the set-up."""

from __future__ import annotations

from runtime.errors import RuntimeFault


class SetUpFailedError(RuntimeFault):
    """A set-up command fails on code that no agent changed: the environment is at fault."""


class SetUpUndecidedError(RuntimeFault):
    """The set-up of what an agent changed needs more than the agent has: a person decides."""
