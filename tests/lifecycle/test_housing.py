"""When the workspace is looked at again before an agent is let into it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from lifecycle.case import Case
from lifecycle.housing import A_MOMENT, still_whole, whole
from lifecycle.plan import Agent, Task
from lifecycle.record import AgentLifecycle
from runtime.plain import FolderWorkspaces

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.parts import Parts


class Counting(FolderWorkspaces):
    """Counts how often it is asked whether a workspace is whole."""

    asked = 0

    async def is_whole(self, workspace: object) -> bool:
        del workspace
        self.asked += 1
        return True


class Stepped:
    """A clock that stands still between steps."""

    at = 1000.0

    def now(self) -> float:
        return self.at


def scene(folder: Path) -> tuple[Parts, Case, Counting, Stepped]:
    workspaces, clock = Counting(folder), Stepped()
    record = AgentLifecycle(agent_id="agent-T001", task="Calculator", created_at=1.0)
    case = Case(record, Task(id="T001"), Agent(agent_id="agent-T001", command=("true",)))
    parts = SimpleNamespace(workspaces=workspaces, clock=clock)
    return cast("Parts", parts), case, workspaces, clock


async def test_what_was_found_whole_just_now_is_not_looked_at_again(tmp_path: Path) -> None:
    parts, case, workspaces, clock = scene(tmp_path)
    found = await whole(parts, case)
    clock.at += A_MOMENT / 2

    assert await still_whole(parts, case) is found
    assert workspaces.asked == 1


async def test_once_an_agent_was_let_in_it_is_looked_at_each_time(tmp_path: Path) -> None:
    parts, case, workspaces, _ = scene(tmp_path)
    await whole(parts, case)
    await still_whole(parts, case)

    await still_whole(parts, case)
    await still_whole(parts, case)

    assert workspaces.asked == 3


async def test_what_was_found_whole_a_while_ago_is_looked_at_again(tmp_path: Path) -> None:
    parts, case, workspaces, clock = scene(tmp_path)
    await whole(parts, case)
    clock.at += 2 * A_MOMENT

    await still_whole(parts, case)

    assert workspaces.asked == 2


async def test_a_clock_that_was_set_back_is_no_proof(tmp_path: Path) -> None:
    parts, case, workspaces, clock = scene(tmp_path)
    await whole(parts, case)
    clock.at -= 3600.0

    await still_whole(parts, case)

    assert workspaces.asked == 2
