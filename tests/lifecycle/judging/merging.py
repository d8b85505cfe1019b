"""A repository in which work conflicts, or is red together, and people who decide at any moment."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lifecycle.judging.unaccepted_work import UnacceptedWork
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    Accepted,
    AwaitingHuman,
    BackingOff,
    Completed,
    Reason,
    Rejected,
)
from lifecycle.plan import Agent, Task
from lifecycle.result import ended
from tests.begun import begun
from tests.lifecycle.world import World, git
from tests.waiting import answered, until

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.engine.engine import LocalEngine
    from lifecycle.record import AgentLifecycle

Kind = Literal["own", "same", "rename", "use"]
Verb = Literal["accept", "reject", "along"]

CHECK = """\
for used in $(cat *.use 2>/dev/null); do
    grep -qx "$used" names || { echo "nobody is called $used"; exit 1; }
done
! grep -l '^<<<<<<<' -- * 2>/dev/null
"""
AGENT = """\
set -e
say() {
    printf '{"%s": {"lifecycle_state": "%s", "breakpoint": {"type": "%s", "task_id": "%s"}}}' \\
        "$LOOPWRIGHT_AGENT_ID" "$1" "$2" "$LOOPWRIGHT_TASK_ID" > new.json
    mv new.json "$LOOPWRIGHT_COMM_FILE"
}
record() { git add -A; git commit -q --allow-empty -m "$1"; }
work="work of $LOOPWRIGHT_TASK_ID"
if git rev-parse -q --verify MERGE_HEAD > /dev/null; then
    for file in $(git diff --name-only --diff-filter=U); do
        sed -i '/^<<<<<<<\\|^=======\\|^>>>>>>>/d' "$file"
    done
    for file in *.use; do [ ! -e "$file" ] || head -n 1 names > "$file"; done
    record "resolve"
fi
if ! git log --format=%s | grep -qx "$work"; then
    case $1 in
        own) echo x > "$LOOPWRIGHT_TASK_ID.own" ;;
        same) echo "$LOOPWRIGHT_TASK_ID" > same ;;
        rename)
            echo "called-$LOOPWRIGHT_TASK_ID" > names
            for file in *.use; do [ ! -e "$file" ] || cp names "$file"; done ;;
        use) head -n 1 names > "$LOOPWRIGHT_TASK_ID.use" ;;
    esac
    record "$work"
    if ! sh check.sh > /dev/null; then
        for file in *.use; do head -n 1 names > "$file"; done
        record "mend"
    fi
    [ "$2" = person ] || { say pr_created pr_created; exit; }
fi
if [ "$2" != person ] && ! git merge-base --is-ancestor HEAD main; then
    say pr_created pr_created
else
    say complete task_complete
fi
"""


@dataclass(frozen=True)
class Piece:
    """One task of a plan."""

    kind: Kind
    needs: frozenset[int]
    auto: bool
    """Its pull request is merged unasked."""


@dataclass(frozen=True)
class Deed:
    """What a person does to one of them."""

    verb: Verb
    which: int


class Town:
    """One run of a plan, and what people do to it."""

    def __init__(self, folder: Path) -> None:
        begun(folder / "repo", {"a.txt": "a\n", "test_a.py": "assert True\n"})
        self.world = World(folder)
        repo = self.world.repo
        (repo / "names").write_text("first\n")
        (repo / "same").write_text("nobody\n")
        (repo / "check.sh").write_text(CHECK)
        git(repo, "add", ".")
        git(repo, "commit", "-qm", "A check")
        self.script = folder / "agent.sh"
        self.script.write_text(AGENT)
        self.world.settings |= {
            "verify": ("sh check.sh",), "baseline": False, "pr_merge_timeout": 2.0,
            "blocked_timeout": 2.0, "max_live_agents": 8,
        }  # fmt: skip
        self.loop = self.world.loop(ci=self.world.ci("sh check.sh", auto_merge=True))
        self.runs: set[asyncio.Task[object]] = set()
        self.agents: list[tuple[Agent, Task]] = []
        self.wanted: set[str] = set()
        """Agents whose work a person accepted at last."""
        self.taken_along: set[str] = set()
        """Agents whose work a person let come along on purpose."""

    async def live(self, pieces: list[Piece], deeds: list[Deed]) -> None:
        """Let everything happen until it rests."""
        async with self.loop.opened() as engine:
            engine.revive = self._revive
            for number, piece in enumerate(pieces):
                self._add(number, piece)
            for agent, task in self.agents:
                self._run(agent, task)
            try:
                for deed in deeds:
                    await self._do(engine, deed, len(pieces))
                await self._accept_what_was_resolved()
                await self._rest()
            finally:
                await self.loop.shutdown()
                await asyncio.gather(*self.runs, return_exceptions=True)

    def _add(self, number: int, piece: Piece) -> None:
        name, who = f"T{number}", "auto" if piece.auto else "person"
        needs = [f"T{each}" for each in sorted(piece.needs)]
        task = self.world.task(name, dependencies=needs)
        argv = ("/bin/sh", str(self.script), piece.kind, who)
        self.agents.append((Agent(agent_id=f"agent-{name}", command=argv), task))

    def _run(self, agent: Agent, task: Task) -> None:
        run: asyncio.Task[object] = asyncio.create_task(self.loop.run_agent_loop(agent, task))
        self.runs.add(run)
        run.add_done_callback(self.runs.discard)

    def _revive(self, record: AgentLifecycle) -> None:
        for agent, task in self.agents:
            if agent.agent_id == record.agent_id:
                self._run(agent, task)

    async def _do(self, engine: LocalEngine, deed: Deed, count: int) -> None:
        agent_id = f"agent-T{deed.which % count}"
        record = await self._settled(agent_id)
        if deed.verb != "reject" and not isinstance(record.work, Completed):
            return
        along: tuple[str, ...] = ()
        if deed.verb == "along":
            found = await UnacceptedWork(engine.shared.store, engine.machine.branches).of_record(
                record
            )
            along = tuple(each.agent_id for each in found)
        at = time.time()  # noqa: TID251  # people have clocks
        event: on.PersonEvent = on.AcceptRequested(at=at, by="Ada", along=deed.verb == "along")
        if deed.verb == "reject":
            event = on.RejectRequested(at=at, by="Ada")
        await self._ask(agent_id, event)
        if deed.verb == "reject":
            self.wanted.discard(agent_id)
        else:
            self.wanted.add(agent_id)
            self.taken_along |= set(along)

    async def _ask(self, agent_id: str, event: on.PersonEvent) -> None:
        request = await self.world.store.ask(agent_id, event)
        await answered(self.world.store, request)
        await self._settled(agent_id)

    async def _accept_what_was_resolved(self) -> None:
        """Decide again, as a person does, about each new head of what he wants."""
        for _ in range(8):
            open_now = []
            for agent_id in sorted(self.wanted):
                record = await self._settled(agent_id)
                if isinstance(record.work, Completed):
                    open_now.append(agent_id)
            if not open_now:
                return
            for agent_id in open_now:
                at = time.time()  # noqa: TID251  # as above
                await self._ask(agent_id, on.AcceptRequested(at=at, by="Ada"))

    async def _settled(self, agent_id: str) -> AgentLifecycle:
        """Wait until nothing about it moves by itself."""

        async def at_rest() -> AgentLifecycle | None:
            record = await self.world.store.get(agent_id)
            work = record.work if record is not None else None
            moves = isinstance(work, Completed) and work.merging
            if record is not None and ended(record) is not None and not moves:
                return record
            return None

        found: AgentLifecycle = await until(at_rest, f"{agent_id} comes to rest")
        return found

    async def _rest(self) -> None:
        for agent, _ in self.agents:
            await self._settled(agent.agent_id)

    # --- what must hold -----------------------------------------------------------------------

    async def judge(self, pieces: list[Piece]) -> None:
        """Check all that is promised of merging."""
        self._every_commit_of_the_base_is_green()
        in_base = set(self.world.git("log", "--format=%s", "main").splitlines())
        for number, piece in enumerate(pieces):
            agent_id = f"agent-T{number}"
            record = await self.world.store.get(agent_id)
            assert record is not None
            work, merged = record.work, f"work of T{number}" in in_base
            story = f"{agent_id}: {work}"
            if isinstance(work, Accepted):
                assert merged, story
            elif merged:
                assert piece.auto or agent_id in self.taken_along, story
            if isinstance(work, Rejected):
                assert work.reason is Reason.PERSON, story
            if isinstance(work, AwaitingHuman):
                assert work.about is not About.CONFLICT, story
            assert not isinstance(work, BackingOff), story
            if isinstance(work, Completed) and (work.problem or agent_id in self.wanted):
                assert work.along, story

    def _every_commit_of_the_base_is_green(self) -> None:
        folder = self.world.folder / "looked-at"
        for commit in self.world.git("rev-list", "--first-parent", "main").split()[:-1]:
            self.world.git("worktree", "add", "--quiet", "--detach", str(folder), commit)
            try:
                git(folder, "-c", "alias.check=!sh check.sh", "check")
            finally:
                self.world.git("worktree", "remove", "--force", str(folder))
