"""What the store promises of notifications: each reason once, and nothing waiting is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lifecycle.notify.message import SEVERAL, Notification, SendState, id_of, names

if TYPE_CHECKING:
    from lifecycle.store.sqlite.store import SqliteStore


def asks(number: int = 1, **more: Any) -> Notification:
    given: dict[str, Any] = {
        "id": id_of("question", number),
        "at": float(number),
        "type": "needs_you",
        "reason": "question",
        "agent_id": f"agent-T{number}",
        "text": "Blue or green?",
    }
    return Notification(**{**given, **more})


async def test_a_reason_is_stored_once_whoever_finds_it(store: SqliteStore) -> None:
    assert await store.notifications.add(asks(), ["phone"], due_at=1.0)
    assert not await store.notifications.add(asks(text="other"), ["phone", "mail"], due_at=2.0)

    ((send, found),) = await store.notifications.waiting("phone")
    assert (send.ord, send.state, send.due_at) == (1, SendState.WAITING, 1.0)
    assert found == asks()
    assert await store.notifications.waiting("mail") == ()
    assert await store.notifications.known(asks().id)


async def test_what_was_sent_waits_no_more_and_is_counted(store: SqliteStore) -> None:
    for number in (1, 2, 3):
        await store.notifications.add(asks(number), ["phone"], due_at=0.0)
    (first, _), (second, _), _ = await store.notifications.waiting("phone")

    await store.notifications.settle([first], SendState.SENT, at=10.0)
    await store.notifications.settle([second], SendState.SENT, at=20.0)

    left = await store.notifications.waiting("phone")
    assert [found.agent_id for _, found in left] == ["agent-T3"]
    assert await store.notifications.channels_waiting() == ("phone",)
    between = store.notifications.sent_between
    assert await between("phone", 5.0, 20.0, limit=10) == (20.0, 10.0)
    assert await between("phone", 10.0, 20.0, limit=10) == (20.0,)
    assert await between("phone", 5.0, 19.0, limit=10) == (10.0,)


async def test_a_channel_that_fails_says_since_when_and_why(store: SqliteStore) -> None:
    await store.notifications.add(asks(4), ["mail", "phone"], due_at=4.0)
    ((send, _),) = await store.notifications.waiting("mail")

    await store.notifications.retry([send], due_at=9.0, problem="no route")
    await store.notifications.retry([send], due_at=30.0, problem="no route to host")

    mail, phone = await store.notifications.uses()
    assert (mail.channel, mail.waiting, mail.tries) == ("mail", 1, 2)
    assert (mail.failing_since, mail.problem, mail.next_at) == (4.0, "no route to host", 30.0)
    assert (phone.failing_since, phone.tries) == (None, 0)

    await store.notifications.settle([send], SendState.SENT, at=31.0)
    mail, _ = await store.notifications.uses()
    assert (mail.failing_since, mail.waiting, mail.sent) == (None, 0, 1)


async def test_several_that_are_folded_go_as_one(store: SqliteStore) -> None:
    for number in (1, 2):
        await store.notifications.add(asks(number), ["phone", "mail"], due_at=0.0)
    sends = [send for send, _ in await store.notifications.waiting("phone")]
    one = asks(3, type=SEVERAL, text="2 messages")

    await store.notifications.fold(sends, one, "phone", at=5.0)

    assert [found for _, found in await store.notifications.waiting("phone")] == [one]
    assert len(await store.notifications.waiting("mail")) == 2
    (_, _, newest), (_, _, older), _ = await store.notifications.list()
    assert [each.state for each in newest] == [SendState.WAITING]
    assert {each.channel: each.state for each in older} == {
        "mail": SendState.WAITING,
        "phone": SendState.FOLDED,
    }


async def test_pages_begin_with_the_newest(store: SqliteStore) -> None:
    for number in (1, 2, 3):
        await store.notifications.add(asks(number), [], due_at=0.0)

    first = await store.notifications.list(limit=2)
    rest = await store.notifications.list(before=first[-1][0], limit=2)

    assert [found.at for _, found, _ in (*first, *rest)] == [3.0, 2.0, 1.0]


async def test_the_newest_about_a_lasting_reason_is_found(store: SqliteStore) -> None:
    assert await store.notifications.latest("limit of claude") is None
    for number, reason in enumerate(("met", "over"), 1):
        given = asks(number, type="usage_limit", reason=reason, about="limit of claude")
        await store.notifications.add(given, [], due_at=0.0)

    found = await store.notifications.latest("limit of claude")
    assert found is not None
    assert found.name == "usage_limit.over"


async def test_old_ones_go_but_none_that_waits(store: SqliteStore) -> None:
    await store.notifications.add(asks(1), [], due_at=0.0)
    await store.notifications.add(asks(2), ["phone"], due_at=0.0)
    await store.notifications.add(asks(9), [], due_at=0.0)

    assert await store.notifications.prune(5.0) == 1

    assert [found.at for _, found, _ in await store.notifications.list()] == [9.0, 2.0]


async def test_text_of_any_kind_is_kept(store: SqliteStore) -> None:
    await store.notifications.add(asks(text="\udcff \0 ä"), ["phone"], due_at=0.0)
    ((_, found),) = await store.notifications.waiting("phone")
    assert "ä" in found.text


def test_names_for_settings_are_types_and_types_with_a_reason() -> None:
    assert {"needs_you", "needs_you.question", "budget.80", "all_done"} <= set(names())
