"""What the issue of a task shows of the work on it: told to the provider after each commit.

Owns what a record means there. When a forge is asked, and what if it refuses, is the provider's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.issues import IssueStage, IssueStanding, keeper_of
from lifecycle.machine.states import AgentState, AwaitingHuman, Blocked, PrPending, Suspended
from lifecycle.needs_person import only_a_person
from lifecycle.record import EARLIER, Filter, mark_of
from lifecycle.state_words import (
    ACCEPTED,
    DONE,
    GIVEN_UP,
    NEEDS_YOU,
    PAUSED,
    REJECTED,
    STOPPED,
    word_on,
)

if TYPE_CHECKING:
    from ci.issues import KeepsIssues
    from lifecycle.record import AgentLifecycle
    from lifecycle.reporting import Committed
    from lifecycle.services import SharedServices

_RESTS = (PAUSED, STOPPED, NEEDS_YOU, DONE)
_ENDINGS = {
    ACCEPTED: "",
    REJECTED: "The work was rejected, and nobody works on it now.",
    GIVEN_UP: "It was given up, and nobody works on it now.",
}


def standing_of(record: AgentLifecycle, *, left: bool = False) -> IssueStanding | None:
    """Return where the work on an issue stands; None without one, and before the first attempt.

    `left` says that only a person moves it on, whatever its state is called.
    """
    work, task = record.work, record.facts.get("task") or {}
    if work is None or not _issue_of(record) or not work.tally.attempts:
        return None
    inner = work.inner if isinstance(work, Suspended) else work
    word = word_on(record)
    stage = IssueStage.RESTS if left or word in _RESTS else IssueStage.WORKED_ON
    return IssueStanding(
        key=mark_of(record.agent_id, record.birth).rstrip("."),
        issue=_issue_of(record),
        task_id=record.task_id,
        title=str(task.get("title") or ""),
        branch=str(record.facts.get("branch", "")),
        stage=IssueStage.OVER if word in _ENDINGS else stage,
        ending=_ENDINGS.get(word, ""),
        number=inner.number if isinstance(inner, PrPending | AwaitingHuman) else None,
    )


async def follow_issues(shared: SharedServices) -> None:
    """Tell of each commit from now on, and of what was committed while nobody could be told."""
    ci = keeper_of(shared.ci)
    if ci is None:
        return

    def committed(news: Committed) -> None:
        _tell(shared, ci, news.record)

    shared.observers.append(committed)
    async for record in shared.store.every(Filter(states=(AgentState.RUNNING,))):
        if not isinstance(record.work, Blocked):  # what it waits for may not have begun yet
            _tell(shared, ci, record)
    for key in ci.followed_issues():
        agent_id, _, birth = key.rpartition(".")
        found = await shared.store.get(agent_id)
        if found is not None and found.birth != birth:
            found = await shared.store.get(f"{agent_id}{EARLIER}{birth}")
        if found is not None and not isinstance(found.work, Blocked):
            _tell(shared, ci, found)


def _tell(shared: SharedServices, ci: KeepsIssues, record: AgentLifecycle) -> None:
    if record.work is None or not _issue_of(record):
        return
    running, completed = shared.running.values(), shared.completed
    left = only_a_person(record.work, running=running, completed=completed, has_ci=True)
    standing = standing_of(record, left=left)
    if standing is not None:
        title = shared.masker.mask(standing.title)
        ci.follow_issue(standing.model_copy(update={"title": title}))


def _issue_of(record: AgentLifecycle) -> str:
    return str((record.facts.get("task") or {}).get("issue") or "")
