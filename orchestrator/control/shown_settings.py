"""Settings as they are shown to people: without the secrets that stand in them.

A secret belongs into a variable or a file of its own; one that was written into a settings file all
the same, as an argument of a command or a part of an address, is shown nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from lifecycle.notify.channel import NotifyChannel
from orchestrator.config.known_secrets import masker_of
from orchestrator.notify.secret_values import literal_secrets, secrets_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from runtime.masking.masker import Masker


def settings_masker(repo: Path, environ: Mapping[str, str], values: object) -> Masker:
    """Return what takes the secrets out of these values, which hold those of settings."""
    masker = masker_of(environ)
    masker.learn(secrets_of(_channels(values), repo=repo, environ=environ))
    found = (each for text in _texts(values) for each in literal_secrets(text))
    masker.learn({f"SETTING_{number}": each for number, each in enumerate(found, 1)})
    return masker


def _channels(value: object) -> Iterator[NotifyChannel]:
    if isinstance(value, NotifyChannel):
        yield value
    elif isinstance(value, dict):
        try:
            yield NotifyChannel.model_validate(value)
        except ValidationError:
            for each in value.values():
                yield from _channels(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _channels(each)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        # The words of a command line say together what one of them is.
        words = [each for each in value if isinstance(each, str)]
        yield " ".join(words)
        for each in value:
            yield from _texts(each)
