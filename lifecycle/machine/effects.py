"""Effects: orders to the outside. Each is committed with the state that gave it, then performed.

Performing one twice must be harmless: after a crash an order is carried out again under its old id.
"""

from __future__ import annotations

from lifecycle.machine.frozen import frozen
from lifecycle.machine.states import Process, RemarkReply  # noqa: TC001  # the codec resolves them at run time


@frozen
class Effect:
    """Base of all orders."""


@frozen
class AttemptEffect(Effect):
    """Base of the orders that belong to one attempt."""

    attempt: int


@frozen
class PrepareWorkspace(AttemptEffect):
    """Make worktree and branch, take the gates' baseline."""

    join: tuple[str, ...] = ()
    """They are there: only merge the completed work of these tasks into the branch."""


@frozen
class SpawnAgent(AttemptEffect):
    """Render the summary and start a fresh agent with it."""

    merge: tuple[str, ...] = ()
    """Begin to merge these in its workspace before that."""


@frozen
class StopAgent(AttemptEffect):
    """Save dirty work, then end the agent's whole tree."""

    process: Process


@frozen
class FreezeAgent(AttemptEffect):
    """Hold the agent's whole tree still; its clocks stand."""


@frozen
class ThawAgent(AttemptEffect):
    """Let it continue."""


@frozen
class TakeSnapshot(AttemptEffect):
    """Save dirty work and gather the facts."""

    blocked_on: tuple[str, ...] = ()
    """What the agent says it waits for: find out which of that are tasks."""
    spawn_id: str = ""
    """Of the process that left it."""


@frozen
class RunGates(AttemptEffect):
    """Run the task's verify commands on this commit."""

    head: str


@frozen
class RunReview(AttemptEffect):
    """Let another program read this commit, whose gates passed, and say what it thinks of it."""

    head: str


@frozen
class PublishBranch(Effect):
    """Let CI know of the branch's new head."""

    head: str


@frozen
class LookAtBlockers(Effect):
    """Ask whether what the agent waits for has happened."""

    blocked_on: tuple[str, ...]
    head: str


@frozen
class OpenPullRequest(Effect):
    """Find the pull request the agent speaks of, or open one for its branch."""

    url: str
    summary: str


@frozen
class PostReplies(Effect):
    """Post the agent's answers to reviewers, once its branch is pushed at this commit."""

    head: str
    replies: tuple[RemarkReply, ...]


@frozen
class LookAtPullRequest(Effect):
    """Ask what became of the pull request."""

    number: int


@frozen
class MergeBranch(Effect):
    """Merge the branch into its base."""

    head: str
    along: bool = False
    """With work of others that comes along and was not accepted."""
    verify: bool = True
    """Only if the merged files pass the verify commands."""


@frozen
class RemoveWorkspace(Effect):
    """Remove worktree and branch; unmerged work is kept under a saved ref."""
