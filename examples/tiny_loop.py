"""The loop on one screen, made of the real parts: take a fact, decide, commit, perform."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

from communication.mailbox import Mailbox
from lifecycle.attempt.watch import process_of, signal_from
from lifecycle.clock import SystemClock
from lifecycle.context import ContextBuilder
from lifecycle.context.collect import snapshot_of
from lifecycle.drive import Drive
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import Completed, Queued, Rejected
from lifecycle.plan import Agent, Task
from lifecycle.record import AgentLifecycle, PendingEffect
from lifecycle.settings import Settings
from lifecycle.store.sqlite.store import SqliteStore
from lifecycle.working_copy import LocalCopy
from runtime.process import SpawnOrder, TerminalManager
from runtime.workspace import WorkspaceManager

COMMIT = "git -c user.name=A -c user.email=a@localhost commit --quiet --allow-empty --message"
SIGNAL = '{"a1": {"breakpoint": {"type": "task_complete", "summary": "Done"}}}'
WORK = f"grep -q 'This is attempt 1,' || {{ {COMMIT} Work; echo '{SIGNAL}' >communications.json; }}"
TASK, AGENT = Task(id="T1", title="Work"), Agent(agent_id="a1", command=("sh", "-c", WORK))
SETTINGS, BUILDER, now = Settings(retry_interval=0), ContextBuilder(), SystemClock().now


async def main(repo: Path, agents: Path) -> None:
    """Move one lifecycle to its end: each fact is decided on, committed, and only then acted on."""
    record = AgentLifecycle(agent_id="a1", task=TASK.title, work=Queued())
    drive = Drive(case := LocalCopy(task=TASK, agent=AGENT, record=record))
    await (store := SqliteStore.in_memory()).create(record)
    facts, hands = list[on.Event](), (WorkspaceManager(repo, root=agents), TerminalManager(repo))
    while not isinstance(drive.state, (Completed, Rejected)):
        fact = facts.pop(0) if facts else on.Admitted(at=now())  # a slot is free
        turn = drive.take(fact, SETTINGS.policy(TASK, ()))  # decide
        if turn.commit is not None:
            await store.commit(turn.commit)  # commit
            drive.committed(turn)
        print(f"{type(fact).__name__}: {type(turn.state).__name__}")
        for order in turn.orders:  # perform
            facts += [told async for told in perform(order, case, *hands)]
            drive.carried_out(order.effect_id)


async def perform(
    order: PendingEffect, case: LocalCopy, workspaces: WorkspaceManager, terminals: TerminalManager
) -> AsyncIterator[on.Event]:
    """Carry out an order; the results are facts again."""
    place, mark = await workspaces.prepare(case.agent_id), order.effect_id
    match order.effect:
        case do.PrepareWorkspace(attempt=n):
            branch, base = place.branch, place.base_commit
            yield on.WorkspaceReady(at=now(), attempt=n, branch=branch, base_commit=base)
        case do.SpawnAgent(attempt=n):
            (mailbox := Mailbox(place.path / "communications.json")).clear(AGENT.agent_id)
            told = snapshot_of(case, builder=BUILDER, settings=SETTINGS, at=now())
            prompt, log = (place.path.with_suffix(kind) for kind in (".prompt", ".log"))
            prompt.write_text(BUILDER.prompt(told, comm_file=str(mailbox.path), summary_file=""))
            start = SpawnOrder("a1", n, mark, AGENT.command, place.path, prompt, log, {}, 1 << 20)
            agent = await terminals.spawn(start)
            yield on.AgentSpawned(at=now(), attempt=n, process=process_of(agent.identity))
            await agent.sweep(grace=5)  # until it has ended, with all that it started
            word = signal_from(mailbox.load().reading(case.agent_id))
            yield on.AgentExited(at=now(), attempt=n, spawn_id=mark, word=word)
        case do.TakeSnapshot(attempt=n, spawn_id=mark):
            head = (await workspaces.status(place)).head
            yield on.SnapshotTaken(at=now(), attempt=n, spawn_id=mark, head=head)


if __name__ == "__main__":
    with TemporaryDirectory() as repo, TemporaryDirectory() as agents:
        subprocess.run(("sh", "-c", f"git init -q && {COMMIT} Begin"), cwd=repo, check=True)
        asyncio.run(main(Path(repo), Path(agents)))
