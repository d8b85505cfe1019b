"""A program that receives deliveries without end, to be ended without warning."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from ci.inbox import Delivery
from lifecycle.store.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]
SENDERS = 8


def command(path: Path, start: int) -> list[str]:
    """Return the command line of this program, to be started in `ROOT`."""
    return [sys.executable, "-m", "tests.store.delivering", str(path), str(start)]


def sent(name: str) -> Delivery:
    """Return the delivery of a name; the same one whenever it is sent."""
    return Delivery(
        key=f"github:{name}",
        provider="github",
        event="check_run",
        received_at=1.0,
        headers={"x-github-delivery": name},
        body=f'{{"name": "{name}", "text": "{name * 200}"}}'.encode(),
    )


async def receive(path: Path, start: int) -> None:
    """Add deliveries from many senders, each twice; say which is acknowledged, and if it is new."""
    async with await SqliteStore.open(path) as store:

        async def listen(sender: int) -> None:
            number = start
            while True:
                for _ in "once", "again":
                    fresh = await store.deliveries.add(sent(f"{sender}-{number}"))
                    os.write(1, f"{sender}-{number} {fresh}\n".encode())
                number += 1

        await asyncio.gather(*(listen(sender) for sender in range(SENDERS)))


if __name__ == "__main__":
    os.chdir(ROOT)
    asyncio.run(receive(Path(sys.argv[1]), int(sys.argv[2])))
