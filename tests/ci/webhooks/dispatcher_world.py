"""A receiver, an inbox and a dispatcher between them, with providers and disks that fail."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, cast

from ci.interface import CIWatch
from ci.webhook_delivery import Delivery, DeliveryState, Hint
from ci.webhooks.dispatcher import Backoff, DeliveryDispatcher
from ci.webhooks.receiver import Receiver
from lifecycle.clock import SteppedClock
from tests.ci.contract import until
from tests.ci.webhooks.inboxes import (
    BRANCH,
    REPO,
    SECRET,
    SHA,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from ci.webhook_delivery import Deliveries

QUICK = Backoff(first=0.001, longest=0.01)


class Asked:
    """A provider as far as deliveries are concerned: it knows who waits, and may be unreachable."""

    def __init__(self, *watches: CIWatch) -> None:
        self.watches = list(watches)
        self.hints: list[Hint] = []
        self.fails: dict[str, Exception] = {}
        self.gate = asyncio.Event()
        self.gate.set()

    async def take(self, hint: Hint) -> tuple[str, ...]:
        self.hints.append(hint)
        await self.gate.wait()
        fault = self.fails.get(hint.sha)
        if fault is not None:
            raise fault
        return tuple(
            each.key
            for each in self.watches
            if hint.concerns(branch=each.branch, sha=each.sha, number=each.number)
        )


class Reporting(Asked):
    """One that also keeps what deliveries say."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[str] = []
        self.broken: dict[str, Exception] = {}

    async def report(self, delivery: Delivery) -> bool:
        fault = self.broken.get(delivery.key)
        if fault is not None:
            raise fault
        self.reports.append(delivery.key)
        return True


class FullDisk:
    """An inbox on a disk that is full for the next few changes."""

    def __init__(self, deliveries: Deliveries, refusals: int) -> None:
        self._deliveries = deliveries
        self.refusals = refusals

    def __getattr__(self, name: str) -> Any:
        return getattr(self._deliveries, name)

    async def settle(self, *args: Any, **named: Any) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError("disk full")
        await self._deliveries.settle(*args, **named)


class Weighed:
    """An inbox that notes what is read of it."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self.read: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._deliveries, name)

    async def waiting(self, **named: Any) -> tuple[Delivery, ...]:
        found = await self._deliveries.waiting(**named)
        self.read += [each.key for each in found]
        return found


class Desk:
    """A receiver, an inbox and a dispatcher between them."""

    def __init__(self, deliveries: Deliveries, provider: Asked) -> None:
        self.deliveries = deliveries
        self.provider = provider
        self.clock = SteppedClock()
        self.reported: list[str] = []
        self.also: set[str] = {""}
        """Other names of our repository at GitHub."""
        self.dispatcher = DeliveryDispatcher(
            deliveries,
            provider,  # type: ignore[arg-type]  # as much of a provider as is asked
            ours=self.is_ours,
            now=self.clock.now,
            report=self.reported.append,
            backoff=QUICK,
        )
        self.receiver = Receiver(
            deliveries,
            secrets=dict.fromkeys(("github", "gitea", "generic"), lambda: (SECRET,)),
            now=self.clock.now,
            wake=self.dispatcher.wake,
        )

    async def is_ours(self, sender: str, repo: str) -> bool:
        return repo.casefold() in {REPO, *self.also} if sender == "github" else sender == "generic"

    async def send(self, request: tuple[dict[str, str], bytes], provider: str = "github") -> str:
        receipt = await self.receiver.take(provider, *request)
        assert receipt.status == 202
        return receipt.key

    async def settled(self, key: str) -> Delivery:
        """Wait until it is worked on."""

        async def found() -> Delivery | None:
            delivery = await self.deliveries.get(key)
            assert delivery is not None
            return None if delivery.state is DeliveryState.RECEIVED else delivery

        return cast("Delivery", await until(found, f"{key} is worked on"))

    async def all_settled(self, keys: Iterable[str]) -> list[Delivery]:
        return [await self.settled(key) for key in keys]


def watch(key: str = "agent-T1", sha: str = SHA, **more: Any) -> CIWatch:
    return CIWatch(key=key, branch=BRANCH, sha=sha, **more)


@contextlib.asynccontextmanager
async def working(deliveries: Deliveries, provider: Asked) -> AsyncIterator[Desk]:
    desk = Desk(deliveries, provider)
    async with desk.dispatcher:
        yield desk
