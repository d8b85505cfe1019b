"""Each place in which somebody can say something holds a canary of its own; none is written down.

The same story is told twice: with masking, and, as the attack, without. Then each is found.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from ci.events import Check, CheckState, CIEvent, CIEventType
from ci.forge.merge_rules import Rules
from ci.forge.provider import RemoteProvider
from lifecycle.clock import SystemClock
from lifecycle.engine.ci_ports import provider_ports
from lifecycle.loop import AgentLifecycleLoop
from lifecycle.machine import events as on
from lifecycle.mask_values import masked
from lifecycle.paths import Paths
from lifecycle.plan import Agent, Plan, Task
from lifecycle.services import MachineServices, SharedServices
from lifecycle.settings import Settings
from lifecycle.store.sqlite.store import SqliteStore
from runtime.branches import BranchManager
from runtime.masking.masker import Masker
from runtime.process import TerminalManager
from runtime.remote.remote import GitRemote
from runtime.workspace import WorkspaceManager
from tests.ci.forge.remote_world import no_header
from tests.ci.gitea.gitea_world import GiteaWorld
from tests.ci.ports import IDENTITY, git
from tests.lifecycle import reporting
from tests.waiting import until

if TYPE_CHECKING:
    from lifecycle.record import AgentLifecycle

ROOT = Path(__file__).parents[2]
AGENT, OTHER = "agent-T001", "agent-T002"
FILE, STORE, FORGE = "a text", "the store", "the forge"
PLACES = {
    "title": FILE, "description": FILE, "acceptance": FILE, "tag": STORE, "summary by hand": FILE,
    "mission": FILE, "working on": FILE, "request": "", "added": FILE,
    "mission of another": "", "request of another": FILE,
    "model": STORE, "tool": FILE, "last words": STORE, "error": STORE,
    "question": STORE, "blocker": STORE, "answer": STORE, "guidance": FILE, "unblock": STORE,
    "reason of a rejection": STORE, "program": STORE,
    "body of a pull request": FORGE, "title of a pull request": FORGE,
    "check": STORE, "log of a check": FILE, "page of a check": STORE, "told by ci": STORE,
    "remark": FILE, "file of a remark": FILE, "page of a remark": STORE, "branch told by ci": "",
}  # fmt: skip
"""Where each is found at least if nothing is masked; "" where nothing keeps it."""
CANARIES = {place: f"Cn{hashlib.sha256(place.encode()).hexdigest()[:22]}" for place in PLACES}


def canary(place: str) -> str:
    return CANARIES[place]


SAYS = f"""
import json, os
entry = {{
    "mission": {canary("mission")!r}, "working_on": {canary("working on")!r},
    "requests": [["agent-T002", {canary("request")!r}]],
    "added": [["agent-T002", {canary("added")!r}, "before"]],
}}
other = {{
    "mission": {canary("mission of another")!r},
    "requests": [["agent-T001", {canary("request of another")!r}]],
}}
with open(os.environ["LOOPWRIGHT_COMM_FILE"], "w") as file:
    json.dump({{"agent-T001": entry, "agent-T002": other}}, file)
"""


def signals(kind: str, **more: Any) -> list[dict[str, Any]]:
    return [{"breakpoint": {"type": kind, **more}}]


def script() -> dict[str, Any]:
    speaks: list[dict[str, Any]] = [
        reporting.starts(canary("model")),
        reporting.uses(canary("tool")),
        {"run": [sys.executable, "-S", "-c", SAYS]},
        {"write": {"path": "calc.py", "text": "x = 1\n"}},
        {"commit": "Begin"},
        reporting.finishes(canary("last words")),
    ]
    return {
        "1": [*speaks, *signals("question", question=canary("question"))],
        "2": signals("blocked", reason=canary("blocker"), blocked_on=["a key"]),
        "3": signals("pr_created", summary=canary("body of a pull request")),
        "4": signals("pr_created", summary=canary("body of a pull request")),
        "default": reporting.fails(canary("error"), 401, "authentication_failed"),
    }


class Told:
    """One lifecycle on a served forge, to which everything is said that can be."""

    def __init__(self, served: GiteaWorld, folder: Path, store: SqliteStore) -> None:
        self.served, self.folder, self.store = served, folder, store
        self.paths = Paths.of(served.origin.repo)
        self.agent = Agent(
            agent_id=AGENT,
            adapter="claude",
            env={f"{name.upper().replace(' ', '_')}_TOKEN": it for name, it in CANARIES.items()},
        )
        self.task = Task(
            id="T001",
            title=f"Calculate {canary('title')} {canary('title of a pull request')}",
            description=canary("description"),
            acceptance=(canary("acceptance"),),
            tags=(canary("tag"),),
            base="main",
        )
        terminals = TerminalManager(served.origin.repo)
        self.masker = terminals.masker
        self.loop = AgentLifecycleLoop(
            repo_dir=served.origin.repo,
            plan=Plan(tasks=(self.task, Task(id="T002", base="main"))),
            ci_provider=RemoteProvider(served.forge, rules=Rules, header=no_header),
            terminal_manager=terminals,
            branch_manager=BranchManager(served.origin.repo),
            workspace_manager=WorkspaceManager(served.origin.repo),
            store=store,
            settings=Settings(
                retry_interval=0.01, stop_grace=0.3, baseline=False, max_retries=5,
                breakpoint_check_interval=0.1, tool_server="off",
            ),
            remote=GitRemote(served.origin.repo, url=str(served.origin.bare), environ=IDENTITY),
        )  # fmt: skip

    async def comes_to(self, *states: str) -> Any:
        """Wait until it is in one of these work states."""

        async def there() -> AgentLifecycle | None:
            record = await self.store.get(AGENT)
            return record if record and type(record.work).__name__ in states else None

        return await until(there, f"it is {states}")

    async def ask(self, event: type[on.PersonEvent], **more: Any) -> None:
        asked = event(at=time.time(), by="Ada", **more)  # noqa: TID251  # people have clocks
        # As the server does it; a command masks what its own surroundings let it know of.
        await self.store.ask(AGENT, masked(asked, self.masker))

    async def story(self) -> None:
        """Say everything."""
        run = asyncio.create_task(self.loop.run_agent_loop(self.agent, self.task))
        try:
            await self.comes_to("AwaitingHuman")
            await self.ask(on.Guided, text=canary("guidance"))
            self.edits(2)
            await self.ask(on.Answered, text=canary("answer"))
            await self.comes_to("AwaitingHuman", "Blocked")
            await self.blocked()
            await self.ask(on.Unblocked, note=canary("unblock"))
            number, head = await self.opened()
            await self.hears(CIEventType.PR_CHANGES_REQUESTED, number, head)
            await self.attempt(4)
            number, head = await self.opened()
            await self.hears(CIEventType.PR_CHECKS_FAILED, number, head)
            await self.attempt(5)
            await self.comes_to("AwaitingHuman", "Rejected")
            await self.ask(on.RejectRequested, why=canary("reason of a rejection"))
            await self.comes_to("Rejected")
            await asyncio.wait_for(run, 20)
            missing = Agent(
                agent_id=OTHER, command=(f"/no/{canary('program')}",), env=self.agent.env
            )
            await asyncio.wait_for(
                self.loop.run_agent_loop(missing, Task(id="T002", base="main")), 20
            )
        finally:
            await self.loop.shutdown()
            await asyncio.gather(run, return_exceptions=True)

    def edits(self, attempt: int) -> None:
        """Write the next summary by hand, as a person does without our command."""
        path = self.paths.edited(AGENT, attempt)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(canary("summary by hand"))

    async def blocked(self) -> None:
        await self.attempt(2)
        await self.comes_to("AwaitingHuman", "Blocked")

    async def attempt(self, number: int) -> None:
        async def made() -> bool:
            return any(row.attempt >= number for row in await self.store.attempts(AGENT))

        await until(made, f"attempt {number} is made")

    async def opened(self) -> tuple[int, str]:
        """Wait for the pull request at the forge."""

        async def known() -> bool:
            return (await self.comes_to("PrPending")).work.number is not None

        await until(known, "it knows its pull request")
        number, pull = next(iter(self.served.served.pulls.items()))
        return number, pull.head

    async def hears(self, kind: CIEventType, number: int, head: str) -> None:
        remark = kind is CIEventType.PR_CHANGES_REQUESTED
        names = ("file of a remark", "remark", "page of a remark")
        title, text, page = names if remark else ("check", "log of a check", "page of a check")
        detail = Check(
            name=canary(title),
            state=CheckState.FAILED,
            excerpt=canary(text),
            url=f"https://ci.example/{canary(page)}",
        )
        heard = CIEvent(
            type=kind, event_id=f"{kind} {number}", at=time.time(),  # noqa: TID251  # as a provider
            branch=f"agent/{AGENT}", sha=head, pr_number=number,
            pr_url=f"https://ci.example/{canary(page)}", summary=canary("told by ci"),
            excerpt=canary(text), details=(detail,),
        )  # fmt: skip
        await self.loop.notify(heard)
        await self.loop.notify(
            heard.model_copy(update={"branch": canary("branch told by ci"), "event_id": "other"})
        )

    def found(self) -> dict[str, set[str]]:
        """Search what was written, and what the forge was sent: by place, where it is."""
        pulls = " ".join(f"{pull.title} {pull.body}" for pull in self.served.served.pulls.values())
        found: dict[str, set[str]] = {}
        for place, data in (*self.texts(), (FORGE, pulls.encode())):
            for name, it in CANARIES.items():
                if it.encode() in data:
                    found.setdefault(name, set()).add(place)
        return found

    def texts(self) -> list[tuple[str, bytes]]:
        pages = []
        for path in self.paths.root.rglob("*"):
            inside = path.relative_to(self.paths.root)
            if path.is_file() and inside.parts[0] not in {"git", "edited"}:
                kind = STORE if path.name.startswith("state.db") else FILE
                edited = path == self.paths.edited(AGENT, 2)
                pages += [] if edited else [(kind, str(inside).encode() + path.read_bytes())]
        return pages


async def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "script.json").write_text(json.dumps({"attempts": script()}))
    program = programs / "claude"
    program.write_text(
        f"#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -S -P -m runtime.agents.scripted "
        f"{tmp_path / 'script.json'}\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    async with GiteaWorld.running(tmp_path / "served") as served:
        git(served.origin.repo, "config", "user.name", "Ada")
        git(served.origin.repo, "config", "user.email", "ada@example.org")
        paths = Paths.of(served.origin.repo)
        paths.root.mkdir(exist_ok=True)
        async with await SqliteStore.open(paths.database) as store:
            scene = Told(served, tmp_path, store)
            await scene.story()
            return scene.found()


async def test_nothing_that_is_said_anywhere_is_written_with_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await told(tmp_path, monkeypatch) == {}


async def test_without_masking_each_is_found_where_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: the same story, with a masker that learns nothing."""
    monkeypatch.setattr(Masker, "learn", lambda *_: None)
    found = await told(tmp_path, monkeypatch)
    missed = {
        place: found.get(place, set()) for place, at in PLACES.items()
        if at and at not in found.get(place, set())
    }  # fmt: skip
    assert missed == {}


@pytest.mark.parametrize("masker", [Masker(), Masker({"KEY": canary("remark")})])
async def test_what_a_provider_keeps_for_itself_is_masked_too(
    tmp_path: Path, masker: Masker
) -> None:
    """Its memory of reviews, checks and events is written before a lifecycle hears of them."""
    store, clock, nothing = SqliteStore.in_memory(), SystemClock(), cast("Any", None)
    shared = SharedServices(
        store=store, clock=clock, settings=Settings, masker=masker,
        accounts=nothing, slots=nothing, base_commits=nothing,
    )  # fmt: skip
    machine = MachineServices(
        shared=shared, repo=tmp_path, paths=Paths.of(tmp_path),
        workspaces=nothing, terminals=nothing, branches=nothing, checkouts=nothing,
        commands=nothing, setup_facts=nothing, ports=nothing, watcher=nothing,
        builder=nothing, sandbox=nothing,
    )  # fmt: skip
    kept = provider_ports(machine, remote=None).documents
    await kept.put("memory", "1", {"reviews": [{"body": f"mind {canary('remark')}", "number": 7}]})
    told = "***KEY***" if masker else canary("remark")
    assert await kept.all("memory") == {"1": {"reviews": [{"body": f"mind {told}", "number": 7}]}}
