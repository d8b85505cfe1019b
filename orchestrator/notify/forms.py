"""Notifications as JSON values and as words: what channels get, and what lists show.

Owns the form that is sent, of which a person's script reads the keys. Must not send anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict
from urllib.parse import urlsplit

from lifecycle.notify.message import (
    ALL_DONE,
    BUDGET,
    GIVEN_UP,
    NEEDS_YOU,
    RUNNER_STOPPED,
    USAGE_LIMIT,
)
from orchestrator.terminal.text import one_line, safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lifecycle.notify.channel import NotifyChannel
    from lifecycle.notify.message import ChannelUse, Notification, Send

_TITLES = {
    NEEDS_YOU: "{} needs you",
    GIVEN_UP: "{} was given up",
    BUDGET: "budget",
    USAGE_LIMIT: "usage limit",
    ALL_DONE: "everything is done",
    RUNNER_STOPPED: "the runner stopped",
}
_PAGES = {BUDGET: "/costs", ALL_DONE: "/review"}
"""Pages of what is about no single task; all else leads to the board."""


def reached_at(public_url: str, served_at: str) -> str:
    """Return where people reach the pages that are served at an address; empty while none are.

    One of several repositories keeps its place (/r/NAME) behind a public address.
    """
    if not (public_url and served_at):
        return served_at
    place = urlsplit(served_at).path.rstrip("/")
    return public_url if public_url.endswith(place) else f"{public_url}{place}"


class MessageForm(TypedDict):
    """One notification, as every channel gets it; keys may be added, none is changed."""

    id: str
    type: str
    reason: str
    at: float
    repository: str
    agent_id: str
    task_id: str
    text: str
    url: str
    command: str


class SendForm(TypedDict):
    """What became of a notification in one channel."""

    channel: str
    state: str
    tries: int
    due_at: float
    settled_at: float | None
    problem: str


class NotificationForm(MessageForm):
    """One notification in a list."""

    cursor: int
    sends: list[SendForm]


class ChannelForm(TypedDict):
    """How a channel does. It is failing since `failing_since`, if that is not null."""

    name: str
    kind: str
    events: list[str]
    quiet: str
    waiting: int
    sent: int
    failing_since: float | None
    tries: int
    problem: str
    next_at: float | None


class NotificationsForm(TypedDict):
    """A page of notifications, the newest first, and all channels."""

    items: list[NotificationForm]
    next: int | None
    channels: list[ChannelForm]


def message(found: Notification, *, repository: str, address: str) -> MessageForm:
    """Return what a channel gets; `address` is the server's, if one answers."""
    return {
        "id": found.id,
        "type": found.type,
        "reason": found.reason,
        "at": found.at,
        "repository": repository,
        "agent_id": found.agent_id,
        "task_id": found.task_id,
        "text": safe(found.text, lines=True),
        "url": f"{address}{page_of(found)}" if address else "",
        "command": found.command,
    }


def page_of(found: Notification) -> str:
    """Return the path of the page that a notification is about."""
    if found.task_id:
        return f"/t/{found.task_id}"
    return _PAGES.get(found.type, "/")


def title(told: MessageForm) -> str:
    """Return the first line for people: which repository, and what it is about."""
    who = told["task_id"] or told["agent_id"]
    about = _TITLES.get(told["type"], told["type"]).format(who)
    name = told["repository"].rstrip("/").rpartition("/")[2]
    return one_line(f"Loopwright, {name}: {about}")


def words(told: MessageForm) -> str:
    """Return the text for people: what it is, what to type, where to look."""
    lines = (told["text"], told["command"], told["url"])
    return "\n".join(line for line in lines if line)


def listed(
    number: int, found: Notification, sends: Iterable[Send], *, repository: str, address: str
) -> NotificationForm:
    """Return one notification as lists have it."""
    told = message(found, repository=repository, address=address)
    return {
        **told,
        "cursor": number,
        "sends": [
            {
                "channel": each.channel,
                "state": each.state.value,
                "tries": each.tries,
                "due_at": each.due_at,
                "settled_at": each.settled_at,
                "problem": each.problem,
            }
            for each in sends
        ],
    }


def channels(given: Mapping[str, NotifyChannel], uses: Iterable[ChannelUse]) -> list[ChannelForm]:
    """Return the channels of the settings, and how each does."""
    known = {each.channel: each for each in uses}
    made: list[ChannelForm] = []
    for name, channel in given.items():
        use = known.get(name)
        made.append(
            {
                "name": name,
                "kind": channel.kind,
                "events": list(channel.events),
                "quiet": channel.quiet,
                "waiting": use.waiting if use else 0,
                "sent": use.sent if use else 0,
                "failing_since": use.failing_since if use else None,
                "tries": use.tries if use else 0,
                "problem": use.problem if use else "",
                "next_at": use.next_at if use else None,
            }
        )
    return made
