"""What `doctor` finds out about the outside world: the forge, the token, the webhook secrets.

Asks the forge what the token allows, and nothing else. Changes nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ci.errors import CIError
from ci.forge_registry import SENDERS, secret_variable
from orchestrator.doctor.machine import BAD, OK, WARN, Diagnosis
from orchestrator.errors import ConfigError
from orchestrator.runner.providers import ProviderInputs, make_providers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci.forge.protocol import Access
    from orchestrator.runner.providers import Providers

PATIENCE = 15.0
"""Seconds for the forge to answer."""


def providers(inputs: ProviderInputs) -> Iterator[Diagnosis]:
    """Diagnosis who judges commits and keeps pull requests."""
    settings = inputs.settings()
    named = ", ".join(settings.providers) or "local"
    try:
        made = make_providers(inputs)
    except (ConfigError, CIError) as problem:
        what, _, mend = str(problem).partition(": ")
        yield Diagnosis(BAD, "providers", f"{named}; {what}", mend)
        return
    if made.forge is None:
        judged = settings.test_command or "nothing: no test_command is set"
        yield Diagnosis(OK, "providers", f"{named}; each commit is judged by {judged}")
    else:
        yield from _forge(made)
    yield from _secrets(inputs)


def _forge(made: Providers) -> Iterator[Diagnosis]:
    forge = made.forge
    if forge is None:
        return
    try:
        access = asyncio.run(_ask(made))
    except (CIError, TimeoutError) as problem:
        text = str(problem) or f"{forge.place} did not answer within {PATIENCE:g} s"
        what, _, mend = text.partition(": ")
        yield Diagnosis(BAD, "forge", f"{forge.name} at {forge.place}: {what}", mend)
        return
    found = f"{forge.place} as {access.who}, signed in by {made.signed_in_by}"
    if access.can_write:
        yield Diagnosis(OK, "forge", found)
    else:
        level = WARN if access.can_read else BAD
        yield Diagnosis(level, "forge", found, access.problem or "the token may not write there")


async def _ask(made: Providers) -> Access:
    if made.forge is None:
        raise ConfigError("there is no forge to ask")
    try:
        async with asyncio.timeout(PATIENCE):
            return await made.forge.access()
    finally:
        await made.forge.aclose()


def _secrets(inputs: ProviderInputs) -> Iterator[Diagnosis]:
    for name in inputs.settings().providers:
        if name in SENDERS:
            variable = secret_variable(name)
            if inputs.environ.get(variable):
                yield Diagnosis(OK, "webhooks", f"{variable} is set")
            else:
                yield Diagnosis(
                    WARN,
                    "webhooks",
                    f"{variable} is not set, so hooks of {name} are refused",
                    "polling works without; see docs/webhooks.md to be woken at once",
                )
