"""A page of 50 of the API at 100,000 records, against a bare Starlette endpoint over its query."""

from __future__ import annotations

import asyncio
import http.client
import random
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from bench.measure import Options, Row, best, burst, in_turns, pages_compared, script
from bench.world import World, facts_like, fill, patient, world
from lifecycle.audit import Audit
from lifecycle.machine.states import Accepted, Completed, Reason, Rejected, State, Tally
from lifecycle.paths import Paths
from lifecycle.record import AgentLifecycle, Filter
from lifecycle.store.sqlite.store import SqliteStore
from orchestrator.runner.server_interface import RunnerPort
from orchestrator.web.app import guarded
from orchestrator.web.bound_server import bound
from orchestrator.web.server import Server
from orchestrator.web.services import ServerServices

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator
    from pathlib import Path

    from starlette.requests import Request

    from lifecycle.engine.engine import LocalEngine

PAGE = 50
REACH = 2.0
TOKEN = "a-token-of-the-bench-0123456789"  # noqa: S105  # opens nothing but this


async def _fill(path: Path, count: int) -> None:
    async with await SqliteStore.open(path) as store:
        await fill(lambda number: store.create(_record(number)), count)


def _record(number: int) -> AgentLifecycle:
    record = AgentLifecycle(
        agent_id=f"agent-{number}",
        task=f"Task {number}",
        task_id=f"T{number}",
        tags=("nightly",) if number % 7 == 0 else (),
        created_at=float(number),
        facts=facts_like(f"T{number}"),
        work=_work(number),
    )
    record.derive()
    return record


def _work(number: int) -> State:
    tally = Tally(attempt=3, spawn_count=3, retry_count=1)
    if number % 50 == 0:
        return Completed(tally=tally, summary="It works.", changed_files=("a.py", "b.py"))
    if number % 3 == 0:
        return Rejected(tally=tally, reason=Reason.MAX_RETRIES, text="3 of 3 retries are used")
    return Accepted(tally=tally, commit="0" * 40, summary="It works.", changed_files=("a.py",))


def _bare(engine: LocalEngine) -> Starlette:
    async def listed(request: Request) -> JSONResponse:
        cursor = int(request.query_params["cursor"])
        limit = int(request.query_params["limit"])
        page = await engine.shared.store.list(Filter(), cursor=cursor, limit=limit)
        items = [_plain_form(record) for record in page.records]
        return JSONResponse({"items": items, "next": page.next_cursor})

    return Starlette(routes=[Route("/api/v1/lifecycles", listed)])


def _plain_form(record: AgentLifecycle) -> dict[str, object]:
    """Return what is in the record, with no word about what it waits for."""
    work = record.work
    tally = work.tally if work is not None else Tally()
    return {
        "agent_id": record.agent_id,
        "task_id": record.task_id,
        "task": record.task,
        "attempt": tally.attempt,
        "retry_count": tally.retry_count,
        "spawn_count": tally.spawn_count,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "tags": record.tags,
        "error": record.error,
        "cursor": record.cursor,
        "state": record.state.value,
        "work_state": type(work).__name__,
    }


class _Plain(uvicorn.Server):
    """Uvicorn as it comes, but for its signals."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to this script."""
        yield


@asynccontextmanager
async def _plain(app: Starlette) -> AsyncIterator[int]:
    sock = bound("127.0.0.1", 0)
    config = uvicorn.Config(app, http="httptools", ws="none", lifespan="off", log_config=None,
                            access_log=False, timeout_graceful_shutdown=1)  # fmt: skip
    server = _Plain(config)
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        yield int(sock.getsockname()[1])
    finally:
        server.should_exit = True
        await serving


@dataclass
class Both:
    """Both servers in a thread, in one event loop and over one store."""

    made: World
    count: int
    ours: int = 0
    bare: int = 0

    def __enter__(self) -> Self:
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._ready.wait()
        self._raise()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
        self._loop.close()

    def _raise(self) -> None:
        if self._problem is not None:
            raise self._problem

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as problem:  # noqa: BLE001  # raised where it is waited for
            self._problem = problem
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        repo = self.made.folder()
        await _fill(Paths.of(repo).database, self.count)
        loop = self.made.loop(repo, with_git=False, settings=patient())
        async with loop.opened() as engine:
            audit = Audit(engine.shared.store.trail, now=engine.shared.clock.now)
            runner = RunnerPort(engine, audit, lambda _: None)
            async with ServerServices(runner, token=TOKEN) as services:
                app = guarded(services, hosts=frozenset)
                sock = bound("127.0.0.1", 0)
                async with (
                    Server(app, sock, report=engine.shared.report, closing=services.leave),
                    _plain(_bare(engine)) as self.bare,
                ):
                    self.ours = int(sock.getsockname()[1])
                    self._ready.set()
                    await self._over.wait()


async def _asked(port: int, count: int, chance: random.Random) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": f"Bearer {TOKEN}"}

    async def one() -> None:
        cursor = chance.randrange(count // 2, count)
        path = f"/api/v1/lifecycles?cursor={cursor}&limit={PAGE}"
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200 or body.count(b'"agent_id"') != PAGE:
            raise RuntimeError(f"{answer.status}: {body[:200]!r}")

    times = await burst(one)
    connection.close()
    return times


async def measure(options: Options) -> list[Row]:
    """Measure pages at any place of the list."""
    count = 5_000 if options.quick else 100_000
    chance = random.Random(1)  # noqa: S311  # the same places each time
    with world() as made, Both(made, count) as both:

        async def attempt() -> Row:
            mine, theirs = await in_turns(
                lambda: _asked(both.ours, count, chance),
                lambda: _asked(both.bare, count, chance),
                options.rounds(600),
            )
            return pages_compared(
                what=f"API list, page of {PAGE} at {count:,} records",
                against="bare Starlette endpoint",
                mine=mine,
                theirs=theirs,
                at_most=REACH,
                reach=f"<= {REACH:g}x",
                within=float("inf"),
            )

        return [await best(attempt)]


if __name__ == "__main__":
    script(measure)
