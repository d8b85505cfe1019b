"""`loopwright ps` for lifecycles of a time, and without those that came before another."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from lifecycle.machine.states import Accepted, Queued
from lifecycle.record import AgentLifecycle
from tests.orchestrator.loopkit import of_store

if TYPE_CHECKING:
    from lifecycle.store.sqlite.store import SqliteStore
    from tests.orchestrator.loopkit import World

HOUR = 3600.0


def fill(world: World) -> None:
    """Make lifecycles of now, two hours and ten days ago, and an earlier one."""
    now = time.time()  # noqa: TID251  # the command asks the real clock

    async def write(store: SqliteStore) -> None:
        for name, ago in (("old", 240 * HOUR), ("new", 2 * HOUR)):
            await store.create(record(name, now - ago, Queued()))
        over = await store.create(record("again", now - 240 * HOUR, Accepted(commit="c")))
        await store.create_next(record("again", now, Queued()), over)

    def record(name: str, at: float, work: Queued | Accepted) -> AgentLifecycle:
        made = AgentLifecycle(agent_id=name, task="Work", created_at=at, work=work)
        made.derive()
        return made

    of_store(world.repo, write)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["again", "new", "old"]),
        (["--created-after", "1h"], ["again"]),
        (["--created-after", "5d"], ["again", "new"]),
        (["--created-before", "1h"], ["new", "old"]),
        (["--created-after", "5d", "--created-before", "1h", "--state", "queued"], ["new"]),
        (["--created-before", "5d", "--state", "accepted"], []),
        (["--created-after", "2199-01-01"], []),
    ],
)
def test_only_what_was_made_in_the_time_is_listed(
    world: World, options: list[str], expected: list[str]
) -> None:
    fill(world)
    assert world.call("ps", "--ids", *options).stdout.split() == expected


def test_all_holds_the_earlier_lifecycles_too(world: World) -> None:
    fill(world)
    first, second, third, last = world.call("ps", "--ids", "--all").stdout.split()
    assert (first, third, last) == ("again", "new", "old")
    assert second.startswith("again@")
    assert world.call("ps", "--ids", "--all", "--created-before", "5d").stdout.split() == [
        second,
        "old",
    ]


@pytest.mark.parametrize("option", ["--created-after", "--created-before"])
def test_a_time_that_is_none_is_refused_by_the_name_of_its_option(
    world: World, option: str
) -> None:
    fill(world)
    told = world.call("ps", option, "soon", code=2)
    assert f"{option} 'soon' is not a valid time" in told.stderr
