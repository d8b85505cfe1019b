"""Takes over, once at the start of a runner, what an older version left in the store.

Turns of pauses and orders about pull requests were documents then; both stand where they belong
now: in the records, and among the requests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lifecycle.errors import LifecycleError
from lifecycle.machine.runner_orders import PullRequestOrder
from lifecycle.machine.states import Suspended, counted, is_held
from lifecycle.machine.step import suspend

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.machine.states import State
    from lifecycle.store.sqlite.store import SqliteStore

TURNS = "auto_resume"
"""Collection of the turns that are left of pauses, by agent."""
ORDERS = "pr.orders"


async def take_over(store: SqliteStore, now: Callable[[], float]) -> None:
    """Move what is there; a document goes only once what it said is kept."""
    for agent_id, body in (await store.all(TURNS)).items():
        await _turns(store, agent_id, body)
        await store.remove(TURNS, agent_id)
    for key, body in (await store.all(ORDERS)).items():
        order = _order(body, now())
        if order is not None:
            await store.ask(None, order)
        await store.remove(ORDERS, key)


async def _turns(store: SqliteStore, agent_id: str, body: dict[str, Any]) -> None:
    try:
        record = await store.get(agent_id)
    except LifecycleError:  # reported where it would be run
        return
    if record is not None and record.work is not None and is_held(record.work):
        await store.update(replace(record, work=_paused_for(record.work, int(body["turns"]))))


def _paused_for(state: State, turns: int) -> State:
    if isinstance(state, Suspended):
        return suspend(counted(state.inner, pause_turns=turns), state.since, stopped=state.stopped)
    return counted(state, pause_turns=turns)


def _order(body: dict[str, Any], at: float) -> PullRequestOrder | None:
    """Return what was ordered, unless it is answered or cannot be understood."""
    if "answer" in body or not {"action", "number"} <= set(body):
        return None
    terms = body.get("terms", {})
    return PullRequestOrder(
        at=at,
        by=str(body.get("by", "")),
        action=str(body["action"]),
        number=int(body["number"]),
        along=bool(terms.get("along", False)),
        verify=bool(terms.get("verify", True)),
    )
