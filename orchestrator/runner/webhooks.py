"""Webhooks beside the loops: taken in, kept, and passed on to the provider as hints.

Owns which secrets are accepted and that deliveries are processed while the loops run, with or
without a server. What a delivery means is the provider's business.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from ci.forge_registry import SENDERS
from ci.webhooks.dispatcher import DeliveryDispatcher
from ci.webhooks.receiver import Receiver
from lifecycle.mask_values import masked

if TYPE_CHECKING:
    from ci.interface import CIWatch
    from ci.webhook_delivery import Deliveries, Delivery
    from lifecycle.engine.engine import LocalEngine
    from orchestrator.runner.providers import Providers
    from runtime.masking.masker import Masker


class WebhookPipeline:
    """Receiver and dispatcher of one runner; entered while its loops run."""

    def __init__(self, engine: LocalEngine, providers: Providers) -> None:
        shared = engine.shared
        self._shared = shared
        self._appearing: set[asyncio.Task[object]] = set()
        self._dispatcher = DeliveryDispatcher(
            shared.store.deliveries,
            providers.provider,
            ours=providers.is_ours,
            now=shared.clock.now,
            report=self._report,
        )
        self.wake = self._dispatcher.wake
        """Looks for deliveries that somebody put back or handed in."""
        self.receiver = Receiver(
            _Masked(shared.store.deliveries, shared.masker),
            secrets={name: partial(providers.secrets_of, name) for name in SENDERS},
            now=shared.clock.now,
            wake=self.wake,
        )

    async def __aenter__(self) -> Self:
        await self._dispatcher.__aenter__()
        self._shared.watched.append(self._appeared)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._shared.watched.remove(self._appeared)
        await self._dispatcher.__aexit__()
        await asyncio.gather(*self._appearing, return_exceptions=True)

    def _report(self, text: str) -> None:
        self._shared.report("hooks_problem", reason=text)

    def _appeared(self, watch: CIWatch) -> None:
        """Match deliveries that came before a lifecycle waited for them."""
        task = asyncio.get_running_loop().create_task(self._dispatcher.appeared(watch))
        self._appearing.add(task)
        task.add_done_callback(self._appearing.discard)


class _Masked:
    """Masks secrets in deliveries after their signatures are checked, before they are stored."""

    def __init__(self, deliveries: Deliveries, masker: Masker) -> None:
        self._deliveries, self._masker = deliveries, masker

    async def add(self, delivery: Delivery) -> bool:
        """Keep it; False if it is known already."""
        told = masked(delivery, self._masker)
        body = self._masker.mask_bytes(told.body)
        return await self._deliveries.add(told.model_copy(update={"body": body}))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._deliveries, name)
