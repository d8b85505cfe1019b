"""A channel for notifications, as one `[[notify]]` entry of the settings describes it.

Owns the keys, what they may be, and which notifications a channel takes. Must not send anything,
and must not read a secret: an entry only says where one is.
"""

from __future__ import annotations

import re
import shlex
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from lifecycle.notify.message import SEVERAL, TEST, names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lifecycle.notify.message import Notification

KINDS = ("command", "webhook", "url", "desktop", "bell")
KEPT_ELSEWHERE = ("env:", "file:")
"""How a value begins that stands for a variable, or for the content of a file."""
_QUIET = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\s*-\s*([01]?\d|2[0-3]):([0-5]\d)")


class NotifyChannel(BaseModel):
    """One way to tell a person something: exactly one of command, webhook, url, desktop, bell."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(default="", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,49}$|^$")
    """By which lists and `loopwright notify test --channel` know it; by default its kind."""
    command: str | tuple[str, ...] = ""
    """A program that is run in the repository, with one line of JSON on standard input."""
    webhook: str = ""
    """An address that gets the same JSON by POST, signed as Standard Webhooks asks; may be
    env:NAME or file:PATH."""
    secret: str = ""
    """What the webhook is signed with: env:NAME or file:PATH."""
    url: str = ""
    """An Apprise URL (mailto://, tgram://, ntfy:// ...); env:NAME or file:PATH where it holds a
    secret. Needs `loopwright[notify]`."""
    desktop: bool = False
    """A notification on this machine's desktop."""
    bell: bool = False
    """The bell of the terminal that the runner was started in."""
    events: tuple[str, ...] = ()
    """What it takes: types, or types with a reason such as needs_you.question; by default all."""
    quiet: str = ""
    """Hours in which nothing is sent, such as 22:00-07:00 in the machine's time; it waits."""
    urgent: tuple[str, ...] = ()
    """What is sent in the quiet hours all the same, named as in `events`."""
    most_per_hour: int = Field(default=20, ge=1, le=10_000)
    """Messages in an hour; beyond that, or where more than three wait, they are folded into one."""

    @field_validator("events", "urgent")
    @classmethod
    def _are_known(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        known = names()
        for each in given:
            if each not in known:
                near = get_close_matches(each, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
                raise ValueError(f"{each!r} is no event; {hint}")
        return given

    @field_validator("quiet")
    @classmethod
    def _is_a_span(cls, given: str) -> str:
        found = _QUIET.fullmatch(given.strip())
        if given and (found is None or found.group(1, 2) == found.group(3, 4)):
            raise ValueError(f"{given!r} is no span of hours; write it like 22:00-07:00")
        return given.strip()

    @field_validator("command")
    @classmethod
    def _can_run(cls, given: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if isinstance(given, str):
            try:
                shlex.split(given)
            except ValueError as problem:
                raise ValueError(f"{given!r} is no command line: {problem}") from problem
        if any("\0" in word for word in given):
            raise ValueError("a command holds no NUL")
        return given

    @field_validator("webhook")
    @classmethod
    def _is_an_address(cls, given: str) -> str:
        if given and not given.startswith(KEPT_ELSEWHERE):
            parts = urlsplit(given)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(
                    "it must begin with http:// or https://, or be env:NAME, file:PATH"
                )
        return given

    @field_validator("url")
    @classmethod
    def _has_a_scheme(cls, given: str) -> str:
        if given and not given.startswith(KEPT_ELSEWHERE) and "://" not in given:
            raise ValueError("it is no Apprise URL; write it like ntfy://host/topic, or env:NAME")
        return given

    @field_validator("secret")
    @classmethod
    def _is_elsewhere(cls, given: str) -> str:
        if given and not given.startswith(KEPT_ELSEWHERE):
            raise ValueError("a secret stands in no settings file; write env:NAME or file:PATH")
        return given

    @model_validator(mode="after")
    def _is_one_way(self) -> NotifyChannel:
        said = [kind for kind in KINDS if getattr(self, kind)]
        if len(said) != 1:
            found = " and ".join(said) or "none of them"
            raise ValueError(f"an entry names one of {', '.join(KINDS)}; this one has {found}")
        if self.webhook and not self.secret:
            raise ValueError("a webhook needs secret = 'env:NAME' or 'file:PATH' to be signed with")
        if self.secret and not self.webhook:
            raise ValueError("secret is for a webhook")
        return self

    @property
    def kind(self) -> str:
        """Which of the ways it is."""
        return next(kind for kind in KINDS if getattr(self, kind))

    @property
    def command_line(self) -> str:
        """The command as a shell takes it."""
        return self.command if isinstance(self.command, str) else shlex.join(self.command)

    def takes(self, notification: Notification) -> bool:
        """Tell whether it wants this one; tests and folded ones go into every channel."""
        return not self.events or _is_named(notification, self.events)

    def is_urgent(self, notification: Notification) -> bool:
        """Tell whether this one is sent in the quiet hours, too."""
        return notification.type == TEST or _is_named(notification, self.urgent)

    @property
    def quiet_span(self) -> tuple[int, int] | None:
        """Begin and end of the quiet hours, in minutes of the day; None without any."""
        found = _QUIET.fullmatch(self.quiet)
        if found is None:
            return None
        begin_hour, begin, end_hour, end = map(int, found.groups())
        return 60 * begin_hour + begin, 60 * end_hour + end


def _is_named(notification: Notification, chosen: tuple[str, ...]) -> bool:
    always = notification.type in (TEST, SEVERAL)
    return always or notification.type in chosen or notification.name in chosen


def with_names(channels: Iterable[NotifyChannel]) -> dict[str, NotifyChannel]:
    """Return channels by their names; those without one have their kind, with a number."""
    given = tuple(channels)
    taken = {each.name for each in given if each.name}
    made: dict[str, NotifyChannel] = {}
    for each in given:
        name, number = each.name or each.kind, 2
        while not each.name and (name in taken or name in made):
            name, number = f"{each.kind}-{number}", number + 1
        made[name] = each
    return made


def check_names(channels: tuple[NotifyChannel, ...]) -> None:
    """Refuse two channels of one name."""
    given = [each.name for each in channels if each.name]
    double = next((name for name in given if given.count(name) > 1), None)
    if double is not None:
        raise ValueError(f"two entries have the name {double!r}")


def as_values(value: Any) -> Any:
    """Return a setting as plain values: entries without what is as by default."""
    if isinstance(value, tuple) and value and isinstance(value[0], NotifyChannel):
        return tuple(each.model_dump(exclude_defaults=True) for each in value)
    return value
