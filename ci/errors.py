"""The faults of the ci package: one base class, one class per thing that can go wrong.

It owns no logic: an error carries a text that says what happened, where, and what to do.
"""

from __future__ import annotations


class CIError(Exception):
    """Any fault of the ci package."""


class ProviderError(CIError):
    """A provider cannot do what was asked, or was called in the wrong order."""


class RedSetUpError(CIError):
    """A commit cannot be built because its own set-up fails; that of the base works."""

    def __init__(self, text: str, excerpt: str) -> None:
        super().__init__(text)
        self.excerpt = excerpt


class UnknownPullRequestError(ProviderError):
    """No pull request has this number."""


class ForgeError(ProviderError):
    """A forge cannot be asked now, or refuses.

    `retry_at` is when to try again (None: unknown, or a person must act first); `status` is the
    HTTP status, 0 without an answer.
    """

    def __init__(self, text: str, *, status: int = 0, retry_at: float | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.retry_at = retry_at


class UnreachableError(ForgeError):
    """No answer, a server error, or an open circuit breaker: retried later."""


class LimitedError(ForgeError):
    """The forge's rate limit is used up until `retry_at`."""


class UnauthorizedError(ForgeError):
    """The token is missing, wrong or expired."""


class ForbiddenError(ForgeError):
    """The token does not allow this."""


class MissingError(ForgeError):
    """It does not exist, or we may not see it."""


class RefusedError(ForgeError):
    """The forge understood and refuses: a conflict, a rule, a state."""


class GarbledError(ForgeError):
    """The answer is unusable: not JSON, cut off, too large, or of another form."""
