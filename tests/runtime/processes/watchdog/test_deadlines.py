"""What is past its deadline is ended by the watchdog, also while the runner lives; nothing else."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from runtime.processes.watchdog import client
from tests.runtime.process_fixtures import DAEMON, Stage, alive, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.process import AgentProcess

SOON, LATE = 300_000_000, 600_000_000_000
"""Nanoseconds."""


@pytest.fixture
def life() -> Iterator[str]:
    """Give how the marks of one lifecycle begin, and hold nothing to a deadline afterwards."""
    prefix = f"agent.{uuid4().hex}."
    yield prefix
    client.set_deadline(prefix, None)


async def asleep(stage: Stage, mark: str) -> AgentProcess:
    order = stage.order("/bin/sh", "-c", "echo $$ > up; exec sleep 600", mark=mark)
    return await stage.terminals.spawn(order)


async def test_what_is_past_its_deadline_ends_and_nothing_else(stage: Stage, life: str) -> None:
    late, other = await asleep(stage, f"{life}1.0"), await asleep(stage, f"other-{life}1.0")
    client.set_deadline(life, client.now() + SOON)
    how = await late.wait()
    assert how.signal == signal.SIGKILL
    assert alive(other.identity.pid)


async def test_a_daemon_of_it_ends_too(stage: Stage, life: str) -> None:
    script = DAEMON.replace("ENVIRON", "{}")
    order = stage.order(sys.executable, "-c", script, mark=f"{life}1.0")
    await stage.terminals.spawn(order)
    daemon = await stage.number("daemon")
    client.set_deadline(life, client.now() + SOON)
    await until(lambda: not alive(daemon))


async def test_who_is_heard_in_time_keeps_what_it_has(stage: Stage, life: str) -> None:
    kept = await asleep(stage, f"{life}1.0")
    ended = await asleep(stage, f"other-{life}1.0")
    client.set_deadline(life, client.now() + SOON)
    client.set_deadline(f"other-{life}", client.now() + 2 * SOON)
    client.set_deadline(life, client.now() + LATE)
    await ended.wait()
    client.set_deadline(f"other-{life}", None)
    assert alive(kept.identity.pid)


async def test_what_starts_after_the_deadline_ends_at_once(stage: Stage, life: str) -> None:
    client.set_deadline(life, client.now() - SOON)
    late = await asleep(stage, f"{life}1.0")
    assert (await late.wait()).signal == signal.SIGKILL
