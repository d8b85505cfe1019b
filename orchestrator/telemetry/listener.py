"""Hears of each decision of a runner and hands what it means to the sender of telemetry.

Listens only where the setting `telemetry` asks for it. A collector that fails or hangs is reported,
and changes nothing else.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from lifecycle.machine.states import TERMINAL, AgentState
from lifecycle.record import Filter
from orchestrator.telemetry.requirements import missing, wanted
from orchestrator.telemetry.spans import of_decision
from orchestrator.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lifecycle.engine.engine import LocalEngine
    from lifecycle.record import AttemptRow
    from lifecycle.reporting import Committed
    from orchestrator.telemetry.otlp import OtlpSender

SERVICE = "loopwright"
_VARYING = re.compile(r"0x[0-9a-f]+|\d[\d.]*")
"""What differs each time in reports of the same: how long it waits, where an object lies."""
_OVER = tuple(kind.__name__ for kind in TERMINAL)


@asynccontextmanager
async def telemetry(engine: LocalEngine) -> AsyncIterator[None]:
    """Send spans and metrics of what is decided while the block runs, if the settings say so."""
    complaints = _Complaints(engine)
    sender = _sender(engine, complaints)
    if sender is None:
        yield
        return
    listener = Listener(engine, sender)
    await listener.begin()
    try:
        yield
    finally:
        listener.end()
        if not await asyncio.to_thread(sender.close):
            complaints.report("the collector did not answer in time; the latest spans may be lost")


def _sender(engine: LocalEngine, complaints: _Complaints) -> OtlpSender | None:
    """Return what sends, if anything is to be sent and can be; who starts loops refused it then."""
    settings = engine.shared.settings()
    traces, metrics = wanted(settings, os.environ)
    if not (traces or metrics):
        return None
    if problem := missing(settings, os.environ):
        complaints.report(problem)
        return None
    from orchestrator.telemetry.otlp import OtlpSender  # noqa: PLC0415  # an extra, and heavy

    resource = {
        "service.name": SERVICE,
        "service.version": __version__,
        "service.instance.id": f"{engine.machine.machine_id}:{engine.machine.repo}",
        "vcs.repository.name": engine.machine.repo.name,
    }
    try:
        return OtlpSender(resource, complaints.hear, traces=traces, metrics=metrics)
    except Exception as problem:  # noqa: BLE001  # the code of others, and of no use to any loop
        complaints.report(
            f"{problem}; nothing is sent: correct the OTEL_* variable that this means"
        )
        return None


class _Complaints:
    """Reports, from whichever thread, why something was not sent; each reason once."""

    def __init__(self, engine: LocalEngine) -> None:
        self._shared = engine.shared
        self._loop = asyncio.get_running_loop()
        self._told: set[str] = set()

    def hear(self, reason: str) -> None:
        """Take a reason."""
        with suppress(RuntimeError):  # the loop is closed: nobody would see it
            self._loop.call_soon_threadsafe(self.report, reason)

    def report(self, reason: str) -> None:
        """Report it, in the thread of the loops."""
        first = reason.partition("\n")[0]
        same = _VARYING.sub("", first)
        if same not in self._told:
            self._told.add(same)
            self._shared.report("telemetry_failed", reason=self._shared.masker.mask(first))


class Listener:
    """Knows since when each lifecycle is in its state; an `Observer`."""

    def __init__(self, engine: LocalEngine, sender: OtlpSender) -> None:
        self._engine, self._shared, self._sender = engine, engine.shared, sender
        self._since: dict[str, float] = {}

    async def begin(self) -> None:
        """Listen; learn since when each waits that an earlier runner left waiting."""
        store = self._shared.store
        self._shared.observers.append(self.news)
        async for record in store.every(Filter(states=(AgentState.QUEUED, AgentState.RUNNING))):
            since = getattr(record.work, "since", None)
            if since is not None:
                self._since.setdefault(record.agent_id, since)
        for known in await store.outlines((AgentState.COMPLETED,)):
            self._since.setdefault(known.agent_id, known.updated_at)

    def end(self) -> None:
        """Listen no more."""
        if self.news in self._shared.observers:
            self._shared.observers.remove(self.news)

    def news(self, news: Committed) -> None:
        """Send what was decided."""
        told = of_decision(news, self._began(news), self._latest_attempt(news))
        if news.before != news.after:
            self._since[news.agent_id] = news.at
        if news.after in _OVER:
            self._since.pop(news.agent_id, None)
        if told.spans or told.measurements:
            mask = self._shared.masker.mask
            masked = tuple(
                replace(
                    each,
                    attributes={
                        name: mask(value) if isinstance(value, str) else value
                        for name, value in each.attributes.items()
                    },
                )
                for each in told.spans
            )
            self._sender.send(replace(told, spans=masked))

    def _began(self, news: Committed) -> float:
        """Return when the state before began, which an earlier runner may have seen."""
        if news.agent_id in self._since:
            return self._since[news.agent_id]
        owner = self._engine.owner(news.agent_id)
        entries = owner.local.recent if owner is not None else []
        earlier = [each for each in entries if each.event is not news.fact and each.at <= news.at]
        moves = [each.at for each in earlier if each.before != each.after == news.before]
        return moves[-1] if moves else news.record.created_at

    def _latest_attempt(self, news: Committed) -> AttemptRow | None:
        owner = self._engine.owner(news.agent_id)
        return owner.local.ledger[-1] if owner is not None and owner.local.ledger else None
