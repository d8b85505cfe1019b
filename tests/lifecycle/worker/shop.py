"""A remote, clones of it for workers, and a lifecycle that is worked on in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lifecycle.machine.states import Working
from lifecycle.plan import Task
from lifecycle.settings import Settings
from lifecycle.worker.hand_over import assignment_for
from runtime.workspaces.worktrees_dir import default_worktrees_dir
from tests.lifecycle.worker.deciding import Decider
from tests.lifecycle.world import AGENT, World, git

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.machine.states import State
    from lifecycle.services import MachineServices
    from lifecycle.worker.assignment import Assignment
    from lifecycle.worker.branch_travel import BranchTravel
    from tests.lifecycle.world import Step

BRANCH = f"agent/{AGENT}"


class Coordinated(Decider):
    """Has its assignments made by the coordinator, from its own clone and records."""

    machine: MachineServices
    travel: BranchTravel

    async def given(self, name: str) -> Assignment:
        local = (await super().given(name)).local_copy()
        return await assignment_for(self.machine, self.travel, local, name)


class Shop:
    """A remote, clones of it, and a lifecycle that is worked on in them."""

    def __init__(self, world: World, attempts: dict[int, list[Step]], **settings: Any) -> None:
        self.folder = world.folder
        self.bare = world.folder / "bare.git"
        git(world.folder, "clone", "-q", "--bare", str(world.repo), str(self.bare))
        task = Task(id="T001", title="Calculator", verify=["test -e one.txt"])
        told = Settings.model_validate(
            {"retry_interval": 0.0, "canary": "off", "stop_grace": 0.3, **settings}
        )
        base = git(self.bare, "rev-parse", "main")
        self.decider = Decider(task, world.agent(attempts), told, base)

    def clone(self, name: str) -> Path:
        git(self.folder, "clone", "-q", str(self.bare), str(self.folder / name))
        return self.folder / name

    def there(self, what: str) -> str:
        return git(self.bare, "show", what)

    def workspace(self, name: str) -> Path:
        return default_worktrees_dir(self.folder / name) / AGENT


def works(state: State) -> bool:
    return isinstance(state, Working)
