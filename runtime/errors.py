"""The faults of the runtime package: one base class, one class per thing that can go wrong.

It owns no logic: an error carries a text that says what happened, where, and what to do.
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
    """What is run in a folder would use the code of another checkout instead of the folder's."""


class CheckedOutError(WorkspaceError):
    """The agent's branch is checked out by somebody else, who may leave it again."""


class RepositoryError(WorkspaceError):
    """The user's repository cannot host workspaces as it stands."""


class BranchError(RuntimeFault):
    """A branch or commit is missing, or cannot be exported or deleted as asked."""


class SpawnError(RuntimeFault):
    """A process cannot be started as asked."""


class WatchdogError(RuntimeFault):
    """The watchdog cannot be started, and nothing is started without it.

    No SpawnError: what was to be started is not at fault.
    """


class ShortageError(RuntimeFault):
    """The machine is short of something for a while: nobody's fault, and to be tried again.

    No GitError and no SpawnError, so that nobody takes it for an answer.
    """
