"""One host, asked as ourselves: signed in, through its door, its budget noted.

Owns who is told our credentials: this host alone. Must not know what is asked, nor how an answer
is used.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ci.budget import Budget, usual
from ci.errors import ForgeError, GarbledError, LimitedError, UnreachableError
from ci.http_answer import CLIENT_ERRORS, Place, Raw, fault_of
from ci.http_line import Request, ask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from ci.breaker import Doors
    from ci.http_body import End
    from ci.http_line import Address, Line

LOG_LIMIT = 32 * 1024 * 1024
"""Bytes of a log that are read in search of its end."""
LOG_PATIENCE = 3
"""Times the usual timeout, for a log may be long."""
AT_ONCE = 4
"""Requests; whoever comes then waits, which no timeout counts."""
UNCHANGED = 304
USUAL = {"user-agent": "loopwright", "accept": "application/json", "accept-encoding": "gzip"}


class Host:
    """The host that a base url names."""

    def __init__(  # noqa: PLR0913  # as `ci.http.Web`
        self,
        line: Line,
        base_url: str,
        *,
        sign: Callable[[], Awaitable[Mapping[str, str]]],
        now: Callable[[], float],
        advice: str,
        doors: Doors,
        timeout: float,
        max_body: int,
        rng: Callable[[], float],
    ) -> None:
        self.line = line
        self.base = line.address(base_url)
        self.budget = Budget()
        self.timeout = timeout
        self.max_body = max_body
        self._door = doors.of(f"{self.base.scheme}://{self.base.host}")
        self._sign = sign
        self._now = now
        self._advice = advice
        self._rng = rng
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def ask(
        self,
        method: str,
        address: Address,
        headers: Mapping[str, str],
        *,
        content: bytes | None = None,
        end: End | None = None,
    ) -> tuple[Place, Raw]:
        """Ask our host. What is below 400 is returned, all else raised."""
        request = await self.request(method, address, headers, content=content, end=end)
        async with self._slots, self.admitted():
            raw = await ask(self.line, request)
            if (fault := self.judged(request.place, raw)) is not None:
                raise fault
        return request.place, raw

    async def request(
        self,
        method: str,
        address: Address,
        headers: Mapping[str, str],
        *,
        content: bytes | None = None,
        end: End | None = None,
    ) -> Request:
        """Return the request, signed in; before that cost anything, see if the door is shut."""
        self._door.check(self._now())
        signed = lower(await self._sign())
        place = self.place(method, address, signed)
        timeout = self.timeout if end is None else self.timeout * LOG_PATIENCE
        most = self.max_body if end is None else LOG_LIMIT
        return Request(place, address, {**USUAL, **signed, **headers}, timeout, most, content, end)

    @contextlib.asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """Go through the door, and tell it how that ended."""
        ticket = self._door.enter(self._now())
        try:
            yield
        except UnreachableError as error:
            now, chance = self._now(), self._rng()
            until = self._door.failed(ticket, now, str(error), chance, until=error.retry_at)
            error.retry_at = until
            raise
        except GarbledError:
            self._door.left(ticket)
            raise
        except ForgeError as error:
            self._door.passed() if error.status else self._door.left(ticket)
            raise
        except BaseException:
            self._door.left(ticket)
            raise
        self._door.passed()

    def judged(self, place: Place, raw: Raw) -> ForgeError | None:
        """Note what an answer of our host says about its limits; return the error that it is."""
        now = self._now()
        self.budget = self.budget.told(raw.headers, now, counted=raw.status != UNCHANGED)
        fault = fault_of(place, raw, now) if raw.status >= CLIENT_ERRORS else None
        if isinstance(fault, LimitedError) and fault.retry_at is not None and usual(raw.headers):
            self._door.limit(fault.retry_at)
        return fault

    def address(self, path: str, params: Mapping[str, str | int] | None = None) -> Address:
        """Return the whole address of a path, or of an address of the same host."""
        text = path
        if not path.startswith(("http://", "https://")):
            text = f"{self.base.text.rstrip('/')}/{path.lstrip('/')}" if path else self.base.text
        if params:
            text += ("&" if "?" in text else "?") + urlencode(params)
        address = self.line.address(text)
        if address.origin != self.base.origin:
            raise ForgeError(
                f"{address.host} is not asked: it is another host than {self.base.host}"
            )
        return address

    def place(self, method: str, address: Address, signed: Mapping[str, str]) -> Place:
        """Return how an error names this."""
        return Place(method, self.base.host, address.text, self._advice, signed)


def lower(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return headers with their names in lower case, so that one replaces the other."""
    return {name.lower(): value for name, value in (headers or {}).items()}
