"""The faults of the ci package: one base class, one class per thing that can go wrong.

It owns no logic: an error carries a text that says what happened, where, and what to do.
"""

from __future__ import annotations


class CIError(Exception):
    """Any fault of the ci package."""


class ProviderError(CIError):
    """A provider cannot do what was asked, or was asked out of turn."""


class UnknownPullRequestError(ProviderError):
    """No pull request has this number."""
