"""Sends what attempts left for people to the coordinator, beside the work.

A file that cannot be sent is tried again for a while and then told of; nothing waits for it. What
is sent twice is stored once. Must not decide anything, and must not delete a file.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from ci.errors import CIError
from lifecycle.worker.attempt_files import files_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from ci.http.post import PostRefusal
    from lifecycle.paths import Paths
    from lifecycle.reporting import Report

PATH = "/api/worker/attempts/"
WORKER_HEADER, BIRTH_HEADER = "x-loopwright-worker", "x-loopwright-birth"
TRIES = 70
"""For about an hour: so long the coordinator may be away."""
NOT_YET, FEW_TRIES = (403, 404), 8
"""Refusals of a coordinator that may be behind with what this worker does; tries for these."""
FIRST, LONGEST = 1.0, 60.0
"""Seconds between two tries; they double."""
WITHIN = 120.0
"""Seconds for one file."""
AT_ONCE = 2
"""Files under way: the line is the work's, too."""


@dataclass(frozen=True, slots=True)
class CoordinatorAddress:
    """Where the coordinator answers, and who speaks to it."""

    url: str
    """Such as `http://10.0.0.5:8700`."""
    token: str = field(repr=False)
    """That of workers (`loopwright serve --worker-token`)."""
    worker: str


class AttemptUploads:
    """What one worker has under way to its coordinator."""

    def __init__(
        self,
        to: CoordinatorAddress,
        report: Report,
        *,
        now: Callable[[], float],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._to, self._report, self._now, self._pause = to, report, now, pause
        self._room = asyncio.Semaphore(AT_ONCE)
        self._under_way: set[asyncio.Task[None]] = set()

    def begin(self, paths: Paths, agent_id: str, birth: str, attempt: int) -> None:
        """Send the files of an attempt that is over; returns at once."""
        sending = asyncio.get_running_loop().create_task(
            self._send_all(paths, agent_id, birth, attempt), name=f"upload of {agent_id} {attempt}"
        )
        self._under_way.add(sending)
        sending.add_done_callback(self._under_way.discard)

    async def aclose(self, within: float) -> None:
        """Give what is under way so many seconds, then drop it and say so."""
        if not self._under_way:
            return
        _, left = await asyncio.wait(tuple(self._under_way), timeout=within)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _send_all(self, paths: Paths, agent_id: str, birth: str, attempt: int) -> None:
        files = await asyncio.to_thread(files_of, paths, agent_id, attempt)
        base = f"{self._to.url.rstrip('/')}{PATH}{quote(agent_id)}/{attempt}/"
        headers = {
            "authorization": f"Bearer {self._to.token}",
            "content-type": "application/octet-stream",
            WORKER_HEADER: self._to.worker,
            BIRTH_HEADER: birth,
        }

        async def send(name: str, path: Path) -> None:
            why = "the worker ended first"
            try:
                why = await self._send(base + name, path, headers)
            finally:
                if why:
                    told = {"agent_id": agent_id, "attempt": attempt, "file": str(path)}
                    self._report("attempt_upload_failed", **told, reason=why)

        await asyncio.gather(*(send(name, path) for name, path in files.items()))

    async def _send(self, address: str, path: Path, headers: Mapping[str, str]) -> str:
        """Send one file, again and again; return why it was given up, if it was."""
        wait, tries = FIRST, 0
        while True:
            async with self._room:
                refused = await self._try(address, path, headers)
            tries += 1
            early = refused.status in NOT_YET
            lasts = refused.lasts and not early
            if not refused.why or lasts or tries >= (FEW_TRIES if early else TRIES):
                return refused.why
            await self._pause(max(refused.wait, wait))
            wait = min(2 * wait, LONGEST)

    async def _try(self, address: str, path: Path, headers: Mapping[str, str]) -> PostRefusal:
        """Send it once; nothing is refused if there is no reason."""
        from ci.http.post import PostRefusal, post  # noqa: PLC0415  # httpx is heavy

        try:
            content = await asyncio.to_thread(path.read_bytes)
            refused = await post(
                address, content, headers, seconds=WITHIN, now=self._now(), method="PUT"
            )
        except OSError as problem:
            return PostRefusal(f"it cannot be read ({problem.strerror})", 0.0, lasts=True)
        except CIError as problem:
            return PostRefusal(str(problem), 0.0, lasts=False)
        return refused or PostRefusal("", 0.0, lasts=False)
