"""What a worker says of itself, now and then, to the coordinator: its form, and the sending.

A sign that does not arrive is followed by the next; nothing waits for one. Must not decide
anything: a worker's lease is another matter (`lease`).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from ci.errors import CIError
from lifecycle.plan import Name  # noqa: TC001  # pydantic reads it
from lifecycle.store.rows.workers import WorkerRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.reporting import Report
    from lifecycle.worker.upload import CoordinatorAddress

PATH = "/api/worker/seen"
A_LEASE = 3
"""Signs in the time of one lease."""
WITHIN = 10.0
_Word = Annotated[str, Field(max_length=100)]
MOST_WORDS, MOST_LACKS = 500, 50
_Words = Annotated[str, Field(max_length=MOST_WORDS)]


class SignOfLife(BaseModel):
    """What a worker says of itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    machine: Annotated[str, Field(min_length=1, max_length=64)]
    version: _Word
    labels: Annotated[tuple[_Word, ...], Field(max_length=50)] = ()
    slots: Annotated[int, Field(ge=0, le=100_000)]
    programs: Annotated[tuple[_Word, ...], Field(max_length=100)] = ()
    lacks: Annotated[tuple[_Words, ...], Field(max_length=MOST_LACKS)] = ()
    lease: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]
    draining: bool = False
    leaves: bool = False
    """It is the last sign: nothing runs there any more."""
    now: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """By its own clock."""

    def row(self, seen_at: float) -> WorkerRow:
        """Return it as the coordinator keeps it, by its clock."""
        told = self.model_dump(exclude={"now", "leaves"})
        return WorkerRow(**told, clock_offset=self.now - seen_at, seen_at=seen_at)


class SignsOfLife:
    """Sends a sign at once and several times in a lease, and a last one at the end."""

    def __init__(
        self, to: CoordinatorAddress, sign: Callable[[], SignOfLife], report: Report
    ) -> None:
        """`sign` is asked each time for what there is to say."""
        self._to, self._sign, self._report = to, sign, report
        self._why = ""
        self._sending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._sending = asyncio.get_running_loop().create_task(self._send(), name="signs of life")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sending is not None:
            self._sending.cancel()
            with suppress(asyncio.CancelledError):
                await self._sending
        await self._once(self._sign().model_copy(update={"leaves": True}))

    async def _send(self) -> None:
        while True:
            sign = self._sign()
            await self._once(sign)
            await asyncio.sleep(sign.lease / A_LEASE)

    async def _once(self, sign: SignOfLife) -> None:
        """Send one; say once why it is not heard, and again when the reason is another."""
        from ci.http.post import post  # noqa: PLC0415  # httpx is heavy

        headers = {
            "authorization": f"Bearer {self._to.token}",
            "content-type": "application/json",
        }
        address, content = f"{self._to.url.rstrip('/')}{PATH}", sign.model_dump_json().encode()
        seconds = min(WITHIN, sign.lease)
        try:
            refused = await post(
                address, content, headers, seconds=seconds, now=sign.now, method="PUT"
            )
            why = refused.why if refused is not None else ""
        except CIError as problem:
            why = str(problem)
        if why and why != self._why:
            self._report("worker_sign_failed", worker=sign.name, reason=why)
        self._why = why
