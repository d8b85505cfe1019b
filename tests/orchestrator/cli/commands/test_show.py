"""What `show` tells of one lifecycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

URL = "https://github.com/x/y/pull/7"


@pytest.mark.parametrize(
    ("said", "told", "shown"),
    [
        ({"pr_url": URL}, (URL, "local://pr/1"), f"{URL} (kept as local://pr/1)"),
        ({}, ("local://pr/1", "local://pr/1"), "local://pr/1"),
    ],
)
def test_the_pull_request_is_shown_as_the_agent_signalled_it_and_as_it_is_kept(
    world: World, said: dict[str, str], told: tuple[str, str], shown: str
) -> None:
    world.settings("pr_merge_timeout = 0.5\n")
    steps = [
        {"write": {"path": "x.txt", "text": "x"}},
        {"commit": "add x"},
        {"breakpoint": {"type": "pr_created", **said}},
    ]
    agent = world.script("agent", steps)
    result = world.json("run", "x", "--command", agent, code=None)
    assert result["result_type"] == "pr_created"
    assert (result["pr_url"], result["provider_pr_url"]) == told
    lines = [line.split(maxsplit=2) for line in world.call("show", "T001").stdout.splitlines()]
    assert ["pull", "request", shown] in lines
