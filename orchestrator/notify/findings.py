"""What of a lifecycle is worth a message, and under which id. Pure.

The id stands for the reason: the same question, found by an observer, at a restart or twice, has
the same one. It changes when something new happened: another attempt, another question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine.states import (
    About,
    Accepted,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Completed,
    Reason,
    Rejected,
)
from lifecycle.needs_person import asked
from lifecycle.notify.message import (
    ALL_DONE,
    GIVEN_UP,
    NEEDS_YOU,
    RUNNER_STOPPED,
    USAGE_LIMIT,
    Notification,
    id_of,
)
from lifecycle.state_words import DONE, commands_for, word_on
from lifecycle.state_words import GIVEN_UP as WORD_GIVEN_UP
from lifecycle.state_words import NEEDS_YOU as WORD_NEEDS_YOU
from orchestrator.drafting.draft_task import is_draft
from orchestrator.terminal.text import instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lifecycle.record import AgentLifecycle

LIMIT = "usage limit of {}"
_ASKED = {About.BLOCKED_TIMEOUT: "blocked"}
_STILL = (About.NO_PROGRESS, About.BLOCKED_TIMEOUT)
"""What a person is waited for over several attempts: one reason, told once."""
_WORDS = 500
_NAMED = 6


def of_record(record: AgentLifecycle, at: float) -> Notification | None:
    """Return what a person must know of where a lifecycle stands now, if anything.

    Of one that is blocked the caller knows that only a person moves it on.
    """
    work = record.work
    if is_draft(record):
        return None  # who asked for a plan waits for it at a terminal
    if isinstance(work, AwaitingHuman | Blocked):
        return _needs_you(record, work, at)
    if isinstance(work, Rejected) and work.reason not in (Reason.PERSON, Reason.BUDGET):
        return Notification(
            id=id_of(GIVEN_UP, record.agent_id, record.birth, _attempts(record)),
            at=at,
            type=GIVEN_UP,
            reason=work.reason.value,
            agent_id=record.agent_id,
            task_id=record.task_id,
            text=cut(f"{name_of(record)} was given up: {work.text}"),
            command=f"loopwright show {record.agent_id} --why",
        )
    return None


def _needs_you(record: AgentLifecycle, work: AwaitingHuman | Blocked, at: float) -> Notification:
    about = work.about if isinstance(work, AwaitingHuman) else About.BLOCKED_TIMEOUT
    reason = _ASKED.get(about, about.value)
    tally = work.tally
    told: tuple[object, ...] = (
        tally.attempts,
        work.text if isinstance(work, AwaitingHuman) else "",
    )
    if about is About.BLOCKED_TIMEOUT:
        told = (tally.attempts,)
    elif about in _STILL and tally.open_since is not None:
        told = (tally.open_since,)
    commands = commands_for(about)
    says = "asks" if about is About.QUESTION else "needs you"
    return Notification(
        id=id_of(NEEDS_YOU, record.agent_id, record.birth, reason, *told),
        at=at,
        type=NEEDS_YOU,
        reason=reason,
        agent_id=record.agent_id,
        task_id=record.task_id,
        text=cut(f"{name_of(record)} {says}: {asked(work)}"),
        command=f"loopwright {commands[0].format(record.agent_id)}",
    )


def settings_changed(
    agent_id: str, keys: Iterable[str], names: Iterable[str], at: float
) -> Notification:
    """Return that an agent's work would change settings; `keys` are all its changes ever."""
    return Notification(
        id=id_of(NEEDS_YOU, "settings", agent_id, *sorted(keys)),
        at=at,
        type=NEEDS_YOU,
        reason="settings",
        agent_id=agent_id,
        text=f"The work of {agent_id or 'an agent'} changes what restricts agents: "
        f"{', '.join(names)[:300]}; it does not count before you approve it",
        command="loopwright settings approve",
    )


def unplaced(tasks: Sequence[str], missing: str, episode: str, at: float) -> Notification:
    """Return that no worker can take these tasks; once for as long as that is so."""
    return Notification(
        id=id_of(NEEDS_YOU, "worker", episode),
        at=at,
        type=NEEDS_YOU,
        reason="worker",
        task_id=tasks[0] if len(tasks) == 1 else "",
        text=cut(f"{_some(tasks)}: {missing}"),
        command="loopwright ps",
    )


def killed(since: float, at: float) -> Notification:
    """Return that an earlier runner ended without a word."""
    return Notification(
        id=id_of(RUNNER_STOPPED, since),
        at=at,
        type=RUNNER_STOPPED,
        text=f"The runner that began at {instant(since, at)} ended without a word: it was killed, "
        "or the machine went down. Another one goes on with its work now",
        command="loopwright ps",
    )


def limit_of(record: AgentLifecycle) -> str:
    """Name the usage limit that a lifecycle waits for; empty if it waits for none."""
    work = record.work
    if isinstance(work, BackingOff) and work.tally.limits:
        return LIMIT.format(program_of(record))
    return ""


def limit_met(record: AgentLifecycle, at: float) -> Notification:
    """Return that the limit which a lifecycle waits for was met."""
    work = record.work
    about, until = limit_of(record), work.until if isinstance(work, BackingOff) else at
    since = work.tally.limited_since if work is not None else at
    return Notification(
        id=id_of(USAGE_LIMIT, "met", about, since),
        at=at,
        type=USAGE_LIMIT,
        reason="met",
        about=about,
        text=f"The {about} is reached; work continues by itself at {instant(until, at)}",
        command="loopwright ps",
    )


def limit_over(met: Notification, at: float) -> Notification:
    """Return that a limit is over of which it was told that it was met."""
    return Notification(
        id=id_of(USAGE_LIMIT, "over", met.id),
        at=at,
        type=USAGE_LIMIT,
        reason="over",
        about=met.about,
        text=f"The {met.about} is over; work continues",
        command="loopwright ps",
    )


def program_of(record: AgentLifecycle) -> str:
    """Name the program of the attempt under way, or of the latest."""
    if record.work is not None and record.work.tally.program:
        return record.work.tally.program
    agent = record.facts.get("agent", {})
    if adapter := agent.get("adapter"):
        return str(adapter)
    command = agent.get("command") or ("the agent",)
    return str(command[0]).rpartition("/")[2]


def digest(
    records: Iterable[AgentLifecycle],
    since: float,
    at: float,
    *,
    asks: Callable[[AgentLifecycle], bool],
) -> Notification | None:
    """Return one message on how everything ended; None while nothing has ended.

    `asks` tells of which only a person moves on what is blocked.
    """
    groups: dict[str, list[str]] = {}
    ended = False
    others = (record for record in records if not is_draft(record))
    for record in sorted(others, key=lambda each: each.cursor):
        ended = ended or isinstance(record.work, Completed | Accepted | Rejected)
        word = WORD_NEEDS_YOU if asks(record) else word_on(record)
        groups.setdefault(word, []).append(name_of(record))
    if not ended:
        return None
    said = {
        DONE: "{} done, waiting for your decision",
        WORD_NEEDS_YOU: "{} waiting for you",
        WORD_GIVEN_UP: "{} given up",
    }
    order = (*said, *(word for word in groups if word not in said))
    parts = [
        f"{said.get(word, '{} ' + word).format(len(groups[word]))} ({_some(groups[word])})"
        for word in order
        if word in groups
    ]
    return Notification(
        id=id_of(ALL_DONE, since),
        at=at,
        type=ALL_DONE,
        text=cut(f"Nothing is left to run: {'; '.join(parts)}"),
        command="loopwright review" if DONE in groups else "loopwright ps",
    )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def name_of(record: AgentLifecycle) -> str:
    """Name a lifecycle for people."""
    return record.task_id or record.agent_id


def _attempts(record: AgentLifecycle) -> int:
    return record.work.tally.attempts if record.work is not None else 0


def cut(text: str) -> str:
    """Return a text that fits into a message."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _WORDS else flat[: _WORDS - 3] + "..."
