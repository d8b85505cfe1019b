"""The errors of the runtime package: one base class, one class per kind of failure.

It must hold no logic: an error carries a text that says what happened, where, and what to do.
"""

from __future__ import annotations


class RuntimeFault(Exception):  # noqa: N818  # a base to catch by; the name is public
    """Any fault of the runtime package."""


class GitError(RuntimeFault):
    """A git command failed, timed out, or git itself is missing or too old."""

    def __init__(self, message: str, *, code: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.stderr = stderr


class GrownError(GitError):
    """A file of a commit grew so large that git would read for minutes to compare it."""


class WorkspaceError(RuntimeFault):
    """A workspace cannot be prepared, read or removed as asked."""


class OtherCodeError(WorkspaceError):
    """Commands in a folder would use the code of another checkout instead of the folder's."""


class CheckedOutError(WorkspaceError):
    """The agent's branch is checked out elsewhere, possibly only for a while."""


class RepositoryError(WorkspaceError):
    """The user's repository cannot host workspaces in its present state."""


class BranchError(RuntimeFault):
    """A branch or commit is missing, or cannot be exported or deleted as asked."""


class SpawnError(RuntimeFault):
    """A process cannot be started as asked."""


class WatchdogError(RuntimeFault):
    """The watchdog cannot be started, and nothing is started without it.

    Not a SpawnError: what was to be started is not at fault.
    """


class ShortageError(RuntimeFault):
    """The machine is temporarily short of a resource: retry later.

    Not a GitError or SpawnError, so that it is never mistaken for a result.
    """


class SetUpFailedError(RuntimeFault):
    """A set-up command fails on unchanged code: the environment is at fault."""


class SetUpUndecidedError(RuntimeFault):
    """The set-up of an agent's change needs more than the agent has: a person decides."""


class IsolationError(SpawnError):
    """A process cannot be started in the sandbox that was asked for."""


class SandboxUnavailableError(IsolationError):
    """This machine cannot provide that isolation; `remedy` says what would."""

    def __init__(self, wanted: str, reason: str, remedy: str) -> None:
        super().__init__(f"{wanted} cannot be given here: {reason}. To have it: {remedy}.")
        self.wanted = wanted
        self.reason = reason
        self.remedy = remedy


class PlantedPointerError(IsolationError):
    """A git pointer of a workspace was changed to point elsewhere."""
