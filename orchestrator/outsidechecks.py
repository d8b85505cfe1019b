"""What `doctor` finds out about the outside world: the forge, the token, the webhook secrets.

Asks the forge what the token allows, and nothing else. Changes nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ci.errors import CIError
from orchestrator.checks import BAD, OK, WARN, Check
from orchestrator.errors import ConfigError
from orchestrator.providers import FORGES, Makings, outside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci.forge import Access
    from orchestrator.providers import Outside

PATIENCE = 15.0
"""Seconds for the forge to answer."""


def providers(makings: Makings) -> Iterator[Check]:
    """Check who judges commits and keeps pull requests."""
    settings = makings.settings()
    named = ", ".join(settings.providers) or "local"
    try:
        there = outside(makings)
    except (ConfigError, CIError) as problem:
        what, _, mend = str(problem).partition(": ")
        yield Check(BAD, "providers", f"{named}; {what}", mend)
        return
    if there.forge is None:
        judged = settings.test_command or "nothing: no test_command is set"
        yield Check(OK, "providers", f"{named}; each commit is judged by {judged}")
    else:
        yield from _forge(there)
    yield from _secrets(makings)


def _forge(there: Outside) -> Iterator[Check]:
    forge = there.forge
    if forge is None:
        return
    try:
        access = asyncio.run(_ask(there))
    except (CIError, TimeoutError) as problem:
        text = str(problem) or f"{forge.place} did not answer within {PATIENCE:g} s"
        what, _, mend = text.partition(": ")
        yield Check(BAD, "forge", f"{forge.name} at {forge.place}: {what}", mend)
        return
    found = f"{forge.place} as {access.who}, signed in by {there.signed_in_by}"
    if access.can_write:
        yield Check(OK, "forge", found)
    else:
        level = WARN if access.can_read else BAD
        yield Check(level, "forge", found, access.problem or "the token may not write there")


async def _ask(there: Outside) -> Access:
    if there.forge is None:
        raise ConfigError("there is no forge to ask")
    try:
        async with asyncio.timeout(PATIENCE):
            return await there.forge.access()
    finally:
        await there.forge.aclose()


def _secrets(makings: Makings) -> Iterator[Check]:
    from ci.receiver import secret_variable  # noqa: PLC0415  # only where hooks can come

    for name in makings.settings().providers:
        if name in (*FORGES, "generic"):
            variable = secret_variable(name)
            if makings.environ.get(variable):
                yield Check(OK, "webhooks", f"{variable} is set")
            else:
                yield Check(
                    WARN,
                    "webhooks",
                    f"{variable} is not set, so hooks of {name} are refused",
                    "polling works without; see docs/webhooks.md to be woken at once",
                )
