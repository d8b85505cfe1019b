"""Requests of people and programs wait in the store until they are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import UnknownLifecycleError
from lifecycle.machine import events as on
from lifecycle.machine.runner_orders import PullRequestOrder
from lifecycle.record import Reply, Transaction
from tests.lifecycle.store.samples import begun

if TYPE_CHECKING:
    from lifecycle.store.sqlite.store import SqliteStore


async def test_a_request_lives_until_it_is_answered(store: SqliteStore) -> None:
    record = await begun(store)
    pause, stop = on.PauseRequested(at=1.0, by="ada"), on.StopRequested(at=2.0, pause=True)
    first, second = await store.ask("agent-1", pause), await store.ask("agent-1", stop)

    waiting = await store.requests()
    assert [(each.request_id, each.event, each.at) for each in waiting] == [
        (first, pause, 1.0),
        (second, stop, 2.0),
    ]
    assert [each.request_id for each in await store.requests(after=first)] == [second]
    assert await store.request_outcome(first) is None

    await store.commit(Transaction(record=record, taken=(first, 999)))
    await store.answer_request(second, "it has ended")
    await store.answer_request(first, "too late to say this")
    await store.answer_request(999)

    assert await store.requests() == ()
    assert await store.request_outcome(first) == ""
    assert await store.request_outcome(second) == "it has ended"


async def test_a_request_for_nobody_is_refused(store: SqliteStore) -> None:
    with pytest.raises(UnknownLifecycleError, match="agent-9"):
        await store.ask("agent-9", on.PauseRequested(at=1.0))


async def test_a_request_to_the_runner_tells_that_it_is_begun_and_what_came_of_it(
    store: SqliteStore,
) -> None:
    merge = PullRequestOrder(at=1.0, by="ada", action="merge", number=3, verify=False)
    asked = await store.ask(None, merge)
    (waiting,) = await store.requests()
    assert (waiting.request_id, waiting.agent_id, waiting.event) == (asked, None, merge)
    assert await store.reply(asked) == Reply(begun=False, answered=False)

    await store.begin_request(asked)
    assert await store.reply(asked) == Reply(begun=True, answered=False)

    await store.answer_request(asked, text="merged as abc")
    await store.answer_request(asked, "too late to say this")
    assert await store.reply(asked) == Reply(begun=True, answered=True, text="merged as abc")
    assert (await store.reply(asked + 1)).answered


async def test_a_refused_request_to_the_runner_is_held_in_the_audit(store: SqliteStore) -> None:
    asked = await store.ask(None, PullRequestOrder(at=1.0, by="ada", action="close", number=3))
    await store.answer_request(asked, "there is no pull request 3")
    (entry,) = await store.trail.entries()
    told = (entry.actor, entry.action, entry.subject, entry.outcome, entry.reason)
    assert told == ("ada", "pr close", "pull request 3", "refused", "there is no pull request 3")


async def test_ids_of_requests_are_never_used_again(store: SqliteStore) -> None:
    await begun(store)
    first = await store.ask("agent-1", on.PauseRequested(at=1.0))
    await store.delete("agent-1")
    await begun(store)

    assert await store.ask("agent-1", on.PauseRequested(at=1.0)) > first
