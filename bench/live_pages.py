"""20 open boards: how soon a fact is on them, and what they cost while 8 agents stream."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Options, Row, best, limited, part, script
from bench.served import PATIENCE, TOKEN, Served, served
from bench.world import world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGES, AGENTS, ASKING = 20, 8, 15
SPEAKER = """\
import json, sys, time
for number in range(10**9):
    use = {"type": "tool_use", "id": f"t{number}", "name": "Bash",
           "input": {"command": f"npm test -- --run part{number}"}}
    message = {"id": f"m{number}", "role": "assistant", "content": [use],
               "usage": {"input_tokens": 900, "output_tokens": 10}}
    print(json.dumps({"type": "assistant", "message": message, "parent_tool_use_id": None}),
          flush=True)
    time.sleep(0.1)
"""
ASKER = {"breakpoint": {"type": "question", "question": "Blue or green?"}}
SETTINGS = f"""\
max_live_agents = {AGENTS + 4}
baseline = false
"""


class Pages:
    """Streams as open pages have them, and when each heard of a task last."""

    def __init__(self) -> None:
        self.heard: list[dict[str, float]] = [{} for _ in range(PAGES + 1)]
        self._news = asyncio.Event()

    async def all_heard(self, task: str) -> None:
        """Wait until every page heard of a task."""
        while not all(task in each for each in self.heard):
            self._news.clear()
            await self._news.wait()

    async def listen(self, port: int, number: int, ready: asyncio.Event) -> None:
        """Read the stream of one page to its end; that of number PAGES is the API's."""
        path = "/ui/events?view=board" if number < PAGES else "/api/v1/events"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(
                f"GET {path} HTTP/1.1\r\n"
                f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
                "Accept: text/event-stream\r\n\r\n".encode()
            )
            status = await reader.readline()
            if b" 200 " not in status:
                raise RuntimeError(f"no stream: {status!r}")
            ready.set()
            while line := await reader.readline():
                if line.startswith(b"data: "):
                    told = json.loads(line[6:])
                    name = told.get("agent_id") or told.get("name", "").removeprefix("row:")
                    self.heard[number].setdefault(name, time.perf_counter())
                    self._news.set()
        finally:
            writer.close()


@asynccontextmanager
async def opened(port: int) -> AsyncIterator[Pages]:
    """Open the pages."""
    pages, ready = Pages(), [asyncio.Event() for _ in range(PAGES + 1)]
    tasks = [
        asyncio.create_task(pages.listen(port, number, each)) for number, each in enumerate(ready)
    ]
    try:
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(each.wait() for each in ready))
        yield pages
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def seen(server: Served, pages: Pages, tasks: list[str], count: int) -> list[float]:
    """Pause and resume tasks; return the seconds from each fact to each page.

    A fact is told by the API's own stream in the moment that it is recorded.
    """
    times = []
    for task, verb in itertools.islice(
        itertools.cycle((task, verb) for task in tasks for verb in ("pause", "resume")), count
    ):
        for each in pages.heard:
            each.pop(task, None)
        await asyncio.to_thread(server.post, f"/api/v1/lifecycles/{task}/{verb}", {})
        async with asyncio.timeout(PATIENCE):
            await pages.all_heard(task)
        *seen_at, told_at = (each[task] for each in pages.heard)
        times += [max(0.0, each - told_at) for each in seen_at]
        await asyncio.sleep(0.05)
    return times


async def load(server: Served, seconds: float) -> float:
    """Return the share of a core that the runner takes."""
    before, began = server.cpu(), time.perf_counter()
    await asyncio.sleep(seconds)
    return (server.cpu() - before) / (time.perf_counter() - began)


def _program(folder: Path) -> None:
    """Write what stands for claude; its task says which part it plays."""
    (folder / "speaker.py").write_text(SPEAKER)
    (folder / "ask.json").write_text(json.dumps([ASKER]))
    program = folder / "claude"
    agent = Path(sys.executable).with_name("loopwright-agent")
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo 2.1.326 && exit 0\n'
        'case "$LOOPWRIGHT_AGENT_ID" in\n'
        f"ask*) exec {agent} {folder}/ask.json;;\n"
        f"*) exec {sys.executable} -S {folder}/speaker.py;;\nesac\n"
    )
    program.chmod(0o755)


def _states(server: Served) -> dict[str, str]:
    listed = json.loads(server.get("/api/v1/lifecycles?limit=1000"))["items"]
    return {each["agent_id"]: each["state"] for each in listed}


def _until(server: Served, prefix: str, state: str) -> None:
    end = time.monotonic() + PATIENCE * 3
    while {now for agent, now in _states(server).items() if agent.startswith(prefix)} != {state}:
        if time.monotonic() > end:
            raise RuntimeError(f"not {state}: {_states(server)}")
        time.sleep(0.2)


async def measure(options: Options) -> list[Row]:
    """Measure both on one server."""
    with world() as made:
        repo, programs = made.repository(20), made.folder()
        _program(programs)
        with served(repo, settings=SETTINGS, path=programs) as server:
            asking = [f"ask{number}" for number in range(4 if options.quick else ASKING)]
            for name in asking:
                server.post("/api/v1/lifecycles", {"text": name, "name": name, "agent": "claude"})
            _until(server, "ask", "needs-you")
            async with opened(server.port) as pages:

                async def sees() -> Row:
                    times = await seen(server, pages, asking, 10 if options.quick else 100)
                    p95 = part(times, 0.95)
                    return limited(
                        what=f"fact recorded to seen on each of {PAGES} open boards, p95",
                        ours=f"{p95 * 1000:.0f} ms (p50 {part(times, 0.5) * 1000:.0f})",
                        value=p95,
                        at_most=0.3,
                        reach="<= 300 ms",
                        samples=len(times),
                    )

                first = await best(sees)
                names = [f"speak{number}" for number in range(AGENTS)]
                for name in names:
                    body = {"text": name, "name": name, "agent": "claude"}
                    server.post("/api/v1/lifecycles", body)
                _until(server, "speak", "working")

                async def loads() -> Row:
                    share = await load(server, 3.0 if options.quick else 20.0)
                    return limited(
                        what=f"runner with {PAGES} open boards, {AGENTS} agents streaming 10/s",
                        ours=f"{share * 100:.1f} % of a core",
                        value=share,
                        at_most=0.05,
                        reach="<= 5 % of a core",
                        samples=1,
                    )

                second = await best(loads)
            server.connection.close()  # idle for so long that the server has ended it
            for name in names:
                server.post(f"/api/v1/lifecycles/{name}/stop", {})
        return [first, second]


if __name__ == "__main__":
    script(measure)
