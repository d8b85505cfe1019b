"""The registry of forges, and how each describes itself: a forge is a folder and one line here.

Owns the registry and the form of a description. Imports no forge: a description is loaded when it
is asked for, and what it makes only when it is made. Commands that only look at something read
the names, so nothing heavy may be imported here.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ci.forge.protocol import Forge
    from ci.forge.rest import Connection
    from ci.forge.sign_in import SignIn, SignInContext
    from ci.webhook_delivery import Hint

FORGES = (
    "github",
    "gitlab",
    "gitea",
)
"""Each is the package `ci.<name>`: its DESCRIPTION, and a module `webhooks`."""
SENDERS = (*FORGES, "generic")
"""Senders of webhooks, by the last part of the path they post to; `generic` is any CI without
a forge."""


class Webhooks(Protocol):
    """How one kind of sender signs and phrases deliveries: the module `webhooks` of its package.

    No state, no network.
    """

    HEADERS: frozenset[str]
    """Headers worth storing; never a signature, a token or a cookie."""
    EVENT_HEADER: str
    """The header that names the event; empty where only the body does."""

    def signed(
        self, headers: Mapping[str, str], raw: bytes, secrets: Sequence[str], *, now: float
    ) -> bool:
        """Return whether one of the secrets signed exactly these bytes."""
        ...

    def identity(self, headers: Mapping[str, str], raw: bytes) -> str:
        """Return the sender's id of the delivery; empty if it has none."""
        ...

    def event(self, headers: Mapping[str, str], body: dict[str, Any]) -> str:
        """Return the sender's name of what happened."""
        ...

    def hint(self, headers: Mapping[str, str], body: dict[str, Any]) -> Hint | None:
        """Return what to check now; None for an irrelevant event."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeKind:
    """The description of one kind of forge."""

    name: str
    hosts: Mapping[str, tuple[str, ...]]
    """Well-known hosts, each with its other names, as for ssh over the port of https."""
    words: tuple[str, ...]
    """Parts of host names that identify the forge; one with a leading dot is a suffix."""
    token_variables: tuple[str, ...]
    """Environment variables that may hold a token, ours first."""
    api: Callable[[str], str]
    """Returns the address of the API for that of the pages."""
    answers_with: tuple[str, str]
    """A path of the API that anybody may ask for, and a field or header that only this forge's
    answer has."""
    sign_in: Callable[[SignInContext], SignIn | None]
    """Returns how to sign in; None if no variable holds a token, ProviderError for anything else
    that is missing."""
    make: Callable[[Connection], Forge]

    def runs(self, host: str) -> bool:
        """Return whether the name of a host that is not well known suggests this forge."""
        return any(
            host.endswith(word) if word.startswith(".") else word in host for word in self.words
        )


def forge_kind(name: str) -> ForgeKind:
    """Return the description of a forge; loads no other."""
    return cast("ForgeKind", import_module(f"ci.{name}").DESCRIPTION)


def forge_kinds() -> tuple[ForgeKind, ...]:
    """Return the descriptions of all forges."""
    return tuple(map(forge_kind, FORGES))


def webhooks_of(sender: str) -> Webhooks:
    """Return how a sender signs and phrases its deliveries; loads no other's."""
    return cast("Webhooks", import_module(f"ci.{sender}.webhooks"))


def token_variable(forge: str) -> str:
    """Name the environment variable of ours that holds a forge's token."""
    return f"LOOPWRIGHT_{forge.upper()}_TOKEN"


def secret_variable(sender: str) -> str:
    """Name the environment variable that holds a sender's webhook secrets."""
    return f"LOOPWRIGHT_{sender.upper()}_HOOK_SECRET"
