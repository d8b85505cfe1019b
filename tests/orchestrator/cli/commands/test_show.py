"""What `show` tells of one lifecycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.loopkit import until

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

URL = "https://github.com/x/y/pull/7"


@pytest.mark.parametrize(
    ("said", "shown"),
    [({"pr_url": URL}, f"{URL} (kept as local://pr/1)"), ({}, "local://pr/1")],
)
def test_the_pull_request_is_shown_as_the_agent_signalled_it_and_as_it_is_kept(
    world: World, said: dict[str, str], shown: str
) -> None:
    steps = [
        {"write": {"path": "x.txt", "text": "x"}},
        {"commit": "add x"},
        {"breakpoint": {"type": "pr_created", **said}},
    ]
    with world.live("run", "x", "--command", world.script("agent", steps)):
        world.comes_to("PrPending")
        until(lambda: world.row()["work"].get("number"), "its number is known")
        lines = [line.split(maxsplit=2) for line in world.call("show", "T001").stdout.splitlines()]
    assert ["pull", "request", shown] in lines
