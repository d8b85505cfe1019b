"""A world without processes, git and waiting, in which a runner may die at any point.

What a real crash leaves (living agents, workspaces, mailboxes, CI) stays as it is here too; what it
takes (the runner's memory) is gone: a dead runner cannot change anything any more, not even while
its tasks are torn down. Only the mailbox is a real file, because the agent's word is.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runtime.processes.child import ProcessExit
from runtime.processes.termination import ProcessIdentity
from tests.lifecycle.engine.simulated_ci import Forge

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from random import Random

    from runtime.process import SpawnOrder
    from runtime.workspace import Workspace
    from tests.lifecycle.engine.simulated_ports import Subscription

BASE = "base-commit"
TERM, KILL = 15, 9
OUT_OF_TURN = 0.3


class CrashError(BaseException):
    """The runner is dead; nothing in it may go on."""


class Life:
    """One runner's life: it passes named places, and may end at one of them."""

    def __init__(self, crash_at: int | None = None) -> None:
        self.crash_at = crash_at
        self.passed: list[str] = []
        self.dead = False

    def checkpoint(self, name: str) -> None:
        self.breathe()
        self.passed.append(name)
        if len(self.passed) == self.crash_at:
            self.dead = True
            raise CrashError(name)

    def breathe(self) -> None:
        if self.dead:
            raise CrashError("dead already")


@dataclass(eq=False)
class Actor:
    """A living agent: it performs the steps of its script one by one."""

    mark: str
    agent_id: str
    attempt: int
    pid: int
    order: SpawnOrder
    steps: deque[tuple[str, Any]]
    alive: bool = True
    how: ProcessExit | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.pid * 10, "boot", self.mark)

    def end(self, code: int | None, signal: int | None = None) -> None:
        if self.alive:
            self.alive = False
            self.how = ProcessExit(code, signal)
            self.ended.set()


@dataclass
class Space:
    """One workspace and its branch."""

    workspace: Workspace
    commits: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    dirty: list[str] = field(default_factory=list)

    @property
    def head(self) -> str:
        return self.commits[-1] if self.commits else BASE


Script = dict[int, list[tuple[str, Any]]]


class World:
    """Everything that a runner's crash does not touch."""

    def __init__(self, folder: Path, script: Script, *, gates: Mapping[str, int]) -> None:
        self.folder = folder
        self.script = script
        self.gates = dict(gates)
        self.now = 1_800_000_000.0
        self.actors: dict[str, Actor] = {}
        self.living: dict[Actor, None] = {}
        self.most_alive = 0
        self.spaces: dict[str, Space] = {}
        self.saved: dict[str, list[str]] = {}
        self.forge = Forge(self)
        self.subscriptions: list[Subscription] = []
        self.chance: Random | None = None
        """Lets CI come before agents now and then, where it is given."""
        self.doubled: list[str] = []
        """Agents that were started beside a living one."""
        self.people: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        """What people do once, and when."""

    def alive(self) -> list[Actor]:
        self.living = {actor: None for actor in self.living if actor.alive}
        return list(self.living)

    def steps_of(self, order: SpawnOrder) -> list[tuple[str, Any]]:
        """Return what a process that begins now is going to do."""
        return self.script.get(order.attempt, self.script.get(0, []))

    def step(self) -> bool:
        """Let one of those outside of the runner do one thing; False when nobody has to."""
        if self.chance is not None and self.chance.random() < OUT_OF_TURN and self.forge.step():
            return True
        for actor in self.alive():
            if actor.steps:
                self._act(actor, *actor.steps.popleft())
                return True
        if self.forge.step():
            return True
        for each in self.people:
            if each[0]():
                self.people.remove(each)
                each[1]()
                return True
        return False

    def goes_on(self) -> None:
        """Let everybody outside finish what they can, as it is while no runner runs."""
        for actor in self.alive():
            while actor.alive and actor.steps:
                self._act(actor, *actor.steps.popleft())
        while self.forge.step():
            pass

    def _act(self, actor: Actor, verb: str, what: Any) -> None:
        match verb:
            case "commit":
                space = self.spaces[actor.agent_id]
                space.commits.append(f"{what}-{len(space.commits)}-{actor.pid}")
                space.files[what] = "added"
                space.dirty.clear()
            case "dirty":
                self.spaces[actor.agent_id].dirty.append(what)
            case "say":
                self._say(actor, what)
            case "exit":
                actor.end(what)
            case _:
                raise AssertionError(verb)

    def _say(self, actor: Actor, word: dict[str, Any]) -> None:
        path = self.folder / actor.order.env["LOOPWRIGHT_COMM_FILE"]
        told = {"task_id": actor.order.env["LOOPWRIGHT_TASK_ID"], "spawn_id": actor.mark, **word}
        state = "complete" if word["type"] == "task_complete" else word["type"]
        entry = {"lifecycle_state": state, "breakpoint": told}
        path.write_text(json.dumps({actor.agent_id: entry}))
        for subscription in tuple(self.subscriptions):
            subscription.look()
