"""Values of channels that are kept elsewhere: `env:NAME` and `file:PATH`.

Owns their reading. Must not keep or show one.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from orchestrator.notify.errors import ChannelError
from runtime.masking.masker import secrets_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lifecycle.notify.channel import NotifyChannel

_ADDRESS = re.compile(r"https?://[^\s\"'<>]+")
_RANDOM = re.compile(r"(?=[^a-zA-Z]*[a-zA-Z])(?=[^0-9]*[0-9])[\w.~%-]{16,}")
_MOST = 64 * 1024
_SHORTEST = 6
"""Characters of a value that is masked; anything shorter occurs by chance."""


def value_of(given: str, *, repo: Path, environ: Mapping[str, str]) -> str:
    """Return a value, read where it is kept; ChannelError says what is missing."""
    kind, _, place = given.partition(":")
    if kind == "env":
        if not environ.get(place, "").strip():
            raise ChannelError(f"the variable {place} is not set; set it where the runner starts")
        return environ[place].strip()
    if kind == "file":
        try:
            with (repo / Path(place).expanduser()).open(encoding="utf-8") as stream:
                found = stream.read(_MOST).strip()
        except UnicodeError as problem:
            raise ChannelError(f"{place} cannot be read (it is not UTF-8)") from problem
        except (OSError, ValueError, RuntimeError) as problem:  # no such home, a NUL in the name
            why = getattr(problem, "strerror", None) or problem
            raise ChannelError(f"{place} cannot be read ({why})") from problem
        if not found:
            raise ChannelError(f"{place} is empty; write the value into it")
        return found
    return given


def secrets_of(
    channels: Iterable[NotifyChannel], *, repo: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return what of the channels must be shown nowhere, by names for the marks in its place."""
    found: dict[str, str] = {}
    for number, channel in enumerate(channels, 1):
        for part in ("webhook", "secret", "url"):
            given: str = getattr(channel, part)
            kept = given.startswith(("env:", "file:"))
            try:
                value = value_of(given, repo=repo, environ=environ)
            except ChannelError:
                continue  # told where it is used
            if len(value) >= _SHORTEST and (kept or _holds_secret(value)):
                found[f"NOTIFY_{number}_{part.upper()}"] = value
        line = channel.command if isinstance(channel.command, str) else " ".join(channel.command)
        for place, value in enumerate(literal_secrets(line), 1):
            found[f"NOTIFY_{number}_COMMAND_{place}"] = value
    return found


def literal_secrets(text: str) -> list[str]:
    """Return the secrets that stand in a text, those in the paths of addresses among them."""
    paths = (segment for each in _ADDRESS.findall(text) for segment in _random_parts(each))
    return [*secrets_in(text), *paths]


def _random_parts(address: str) -> list[str]:
    """Return the parts of a path that nobody would guess, such as the end of a Slack webhook."""
    try:
        parts = urlsplit(address).path.split("/")
    except ValueError:
        return []
    return [each for each in parts if _RANDOM.fullmatch(each)]


def _holds_secret(address: str) -> bool:
    """Tell whether an address is more than a place that everybody may know."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return True
    if parts.scheme in ("http", "https"):
        return bool(parts.username or parts.query or _random_parts(address))
    return bool(address)
