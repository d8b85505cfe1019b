"""Values of channels that are kept elsewhere: `env:NAME` and `file:PATH`.

Owns their reading. Must not keep or show one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from orchestrator.notify.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lifecycle.notify.channel import NotifyChannel

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
    return found


def _holds_secret(address: str) -> bool:
    """Tell whether an address is more than a place that everybody may know."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return True
    if parts.scheme in ("http", "https"):
        return bool(parts.username or parts.query)
    return bool(address)
