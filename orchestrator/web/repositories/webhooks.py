"""Webhooks at the one address of all repositories: each goes to the repository that it names.

Owns whose a delivery is. What it means, and how it is kept, is each repository's own business.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ci.forge_registry import FORGES, SENDERS, webhooks_of
from ci.webhook_delivery import document
from ci.webhooks.receiver import Receipt, Receiver, secrets_of
from orchestrator.errors import OrchestratorError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ci.webhook_delivery import Delivery
    from orchestrator.runner.repositories import ServedRepository

RENAMED_WITHIN = 2.0
"""Seconds to ask forges whether a repository that nobody knows is one of ours by another name."""
NOBODYS = "about no repository that is served here: it was not kept"


class BrokenOwnerError(OrchestratorError):
    """The repository that a delivery is about cannot take it now."""


class CommonReceiver:
    """Checks a delivery as a repository does, and hands it to the one that it is about."""

    def __init__(
        self,
        repositories: Sequence[ServedRepository],
        environ: Mapping[str, str],
        *,
        now: Callable[[], float],
    ) -> None:
        self._repositories = repositories
        self._nobodys: set[str] = set()
        self._receiver = Receiver(
            self,  # type: ignore[arg-type]  # it is asked to add and nothing else
            secrets={name: partial(secrets_of, environ, name) for name in SENDERS},
            now=now,
            wake=lambda: None,
        )

    async def take(self, provider: str, headers: Mapping[str, str], raw: bytes) -> Receipt:
        """Check a request, and have it kept by whose it is; 503 where that one is broken."""
        receipt = await self._receiver.take(provider, headers, raw)
        if receipt.key not in self._nobodys:
            return receipt
        self._nobodys.discard(receipt.key)
        return replace(receipt, text=NOBODYS, fresh=False)

    async def add(self, delivery: Delivery) -> bool:
        """Have it kept; False where all that it is about know it already."""
        owners = await self._owners(delivery)
        if not owners:
            self._nobodys.add(delivery.key)
            return False
        told = await asyncio.gather(
            *(_keep(owner, delivery) for owner in owners), return_exceptions=True
        )
        broken = [each for each in told if isinstance(each, BaseException)]
        if len(broken) == len(told):
            # Of several some have it; a broken one asks its forge by itself when it is well again.
            raise broken[0]
        return True in told

    async def _owners(self, delivery: Delivery) -> list[ServedRepository]:
        sender = delivery.provider
        body = document(delivery.headers, delivery.body)
        hint = None if body is None else webhooks_of(sender).hint(delivery.headers, body)
        if hint is None:
            return []
        named = [each for each in self._repositories if _has_name(each, sender, hint.repo)]
        return named or await self._asked(sender, hint.repo)

    async def _asked(self, sender: str, repo: str) -> list[ServedRepository]:
        """Return those that a forge calls so now; all that take this sender, if none is named."""
        if sender not in FORGES and repo:
            return []

        async def is_ours(each: ServedRepository) -> bool:
            return each.providers is not None and await each.providers.is_ours(sender, repo)

        served = [each for each in self._repositories if each.mounted is not None]
        asking = [asyncio.ensure_future(is_ours(each)) for each in served]
        if asking:
            await asyncio.wait(asking, timeout=RENAMED_WITHIN)
        found = []
        for each, asked in zip(served, asking, strict=True):
            if asked.done() and not asked.exception() and asked.result():
                found.append(each)
            asked.cancel()
        return found


def _has_name(repository: ServedRepository, sender: str, repo: str) -> bool:
    """Tell whether a repository has this name at the sender; at one without a forge, its own."""
    if not repo:
        return False
    if sender not in FORGES:
        return repo == repository.name
    there = repository.providers
    if there is None or there.forge is None or there.repository is None:
        return False
    return there.forge.name == sender and there.repository.name.casefold() == repo.casefold()


async def _keep(owner: ServedRepository, delivery: Delivery) -> bool:
    receiver = owner.mounted.runner.receiver if owner.mounted is not None else None
    if receiver is None:
        raise BrokenOwnerError(f"{owner.name} cannot take it now")
    kept: bool = await receiver.store(delivery)
    return kept
