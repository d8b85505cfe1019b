"""Webhooks beside the loops: taken in, kept, and passed on to the provider as hints.

Owns which secrets are believed and that the mail is worked on while the loops run, with or without
a server. What a delivery means is the provider's business.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from ci.dispatch import Dispatcher
from ci.receiver import WORDINGS, Receiver
from lifecycle.masking import masked

if TYPE_CHECKING:
    from ci.inbox import Deliveries, Delivery
    from ci.interface import Watch
    from lifecycle.engine import Engine
    from orchestrator.providers import Outside
    from runtime.masking import Masker


LOOK_EVERY = 2.0
"""Seconds between two looks at whether another process put something into the inbox."""


class Mailroom:
    """Receiver and dispatcher of one runner; entered while its loops run."""

    def __init__(self, engine: Engine, outside: Outside) -> None:
        parts = engine.parts
        self._parts = parts
        self._appearing: set[asyncio.Task[object]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._dispatcher = Dispatcher(
            parts.store.deliveries,
            outside.provider,
            repos=lambda name: outside.repos.get(name, ""),
            now=parts.clock.now,
            report=self._report,
        )
        self.receiver = Receiver(
            _Masked(parts.store.deliveries, parts.masker),
            secrets={name: partial(outside.secrets_of, name) for name in WORDINGS},
            now=parts.clock.now,
            wake=self._dispatcher.wake,
        )

    async def __aenter__(self) -> Self:
        await self._dispatcher.__aenter__()
        self._looking = asyncio.get_running_loop().create_task(self._look(), name="mailroom")
        self._parts.appeared = self._appeared
        return self

    async def __aexit__(self, *_: object) -> None:
        self._parts.appeared = _nobody
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._dispatcher.__aexit__()
        await asyncio.gather(*self._appearing, return_exceptions=True)

    async def _look(self) -> None:
        """Notice what `loopwright hooks replay` left; looking costs next to nothing."""
        seen = self._parts.store.stamp()
        while True:
            await asyncio.sleep(LOOK_EVERY)
            stamp = self._parts.store.stamp()
            if stamp != seen:
                seen = stamp
                self._dispatcher.wake()

    def _report(self, text: str) -> None:
        self._parts.report("hooks_problem", reason=text)

    def _appeared(self, watch: Watch) -> None:
        """Match what came before somebody waited for it."""
        task = asyncio.get_running_loop().create_task(self._dispatcher.appeared(watch))
        self._appearing.add(task)
        task.add_done_callback(self._appearing.discard)


class _Masked:
    """Takes secrets out of deliveries, once their signatures are checked, before they are kept."""

    def __init__(self, deliveries: Deliveries, masker: Masker) -> None:
        self._deliveries, self._masker = deliveries, masker

    async def add(self, delivery: Delivery) -> bool:
        """Keep it; False if it is known already."""
        told = masked(delivery, self._masker)
        body = self._masker.mask_bytes(told.body)
        return await self._deliveries.add(told.model_copy(update={"body": body}))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._deliveries, name)


def _nobody(watch: Watch) -> None:
    del watch
