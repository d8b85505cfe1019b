"""What may happen next in a world, by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import BackingOff, Queued, next_instant, spawn_of
from tests.lifecycle.machine.facts import TASKS, said
from tests.lifecycle.machine.world import RESULTS

if TYPE_CHECKING:
    from random import Random

    from tests.lifecycle.machine.world import World

AGENT: tuple[type[on.AttemptEvent], ...] = (
    on.BreakpointReached,
    on.BreakpointReached,
    on.AgentExited,
    on.LimitReached,
    on.AttemptDoomed,
    on.MailboxInvalid,
)
PEOPLE: tuple[type[on.PersonEvent], ...] = (
    on.Unblocked,
    on.Answered,
    on.Guided,
    on.SummaryApproved,
    on.PauseRequested,
    on.ResumeRequested,
    on.ResumeRequested,
    on.StopRequested,
    on.AcceptRequested,
)
OUTSIDE: tuple[type[on.Event], ...] = (
    on.CiReported,
    on.PullRequestMoved,
    on.Reviewed,
    on.TurnPassed,
)
OF_AN_ATTEMPT: tuple[type[on.AttemptEvent], ...] = (
    *AGENT,
    on.WorkspaceReady,
    on.AgentSpawned,
    on.AgentStopped,
    on.FreezeFailed,
    on.RunnerRestarted,
    on.SnapshotTaken,
    on.GatesFinished,
    on.ReviewFinished,
)


def live(world: World, luck: Random) -> None:
    """Let one thing happen, mostly what comes next by itself."""
    world.clock += luck.choice((0, 1, 60))
    if luck.random() < 0.55:
        _go_on(world, luck)
    else:
        luck.choice((_ask, _ask, _speak, _settle, _haunt, _crash, _reject))(world, luck)


def _go_on(world: World, luck: Random) -> None:
    if world.orders:
        world.perform(luck.randrange(3), lambda order: _result(order, luck))
    elif world.alive:
        kind = luck.choice(AGENT)
        world.agent_says(kind, **_told(kind, luck))
    else:
        _pass_time(world, luck)


def _pass_time(world: World, luck: Random) -> None:
    """Let the deadline of the state pass, or give the place it waits for."""
    state = world.state
    instant = state.until if isinstance(state, BackingOff) else next_instant(state)
    world.clock = max(world.clock, instant or 0.0)
    waits = isinstance(state, (Queued, BackingOff))
    if not waits:
        world.tell(on.DeadlinePassed)
    elif luck.random() < 0.2:
        world.tell(on.Admitted, **_told(on.Admitted, luck))
    else:
        world.tell(on.Admitted)


def _ask(world: World, luck: Random) -> None:
    kind = luck.choice(PEOPLE)
    world.tell(kind, **_told(kind, luck))


def _reject(world: World, luck: Random) -> None:
    if luck.random() < 0.2:
        world.tell(on.RejectRequested, by="ada")


def _speak(world: World, luck: Random) -> None:
    if luck.random() < 0.3:
        world.tell(on.Admitted)
    kind = luck.choice(OUTSIDE)
    world.tell(kind, **_told(kind, luck))


def _settle(world: World, luck: Random) -> None:
    world.settle(luck.choice(TASKS), done=luck.random() < 0.5)


def _haunt(world: World, luck: Random) -> None:
    """Let another attempt than the present one speak."""
    kind = luck.choice(OF_AN_ATTEMPT)
    attempt = world.state.tally.attempt + luck.choice((-2, -1, 1))
    assert not world.tell(kind, **_told(kind, luck) | {"attempt": attempt})
    if spawn_of(world.state) and kind not in (on.WorkspaceReady, on.AgentSpawned, on.GatesFinished):
        assert not world.tell(kind, **_told(kind, luck) | {"spawn_id": "of a former process"})


def _crash(world: World, luck: Random) -> None:
    word = said(on.BreakpointReached, luck)["word"] if luck.random() < 0.3 else None
    world.runner_dies(word, spawned=luck.random() < 0.5)


def _told(kind: type[on.Event], luck: Random) -> dict[str, Any]:
    """Draw what an event says beside its instant and attempt."""
    return {
        name: value
        for name, value in said(kind, luck).items()
        if name not in {"at", "attempt", "spawn_id"}
    }


def _result(order: do.Effect, luck: Random) -> dict[str, Any] | None:
    """Draw how an order turns out; None where it goes wrong."""
    if luck.random() < 0.15:
        return None
    if isinstance(order, (do.PublishBranch, do.PostReplies, do.FreezeAgent, do.ThawAgent)):
        return {}
    return _told(RESULTS[type(order)][0], luck)
