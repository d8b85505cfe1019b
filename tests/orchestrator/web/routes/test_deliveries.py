"""Webhooks over HTTP: one whole, why it matched nothing, replayed by the one inbox, counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ci.webhook_delivery import Delivery, DeliveryState, Hint
from lifecycle.machine.states import About, AwaitingHuman, PrPending, Signal
from lifecycle.record import AgentLifecycle
from orchestrator.web.reading.deliveries import MOST_BODY
from tests.orchestrator.web.edge.test_webhooks import HOOKED, PING, signed
from tests.orchestrator.web.webkit import Site, client_of, site

if TYPE_CHECKING:
    from pathlib import Path

SHA = "77aa01c" + "0" * 33


async def keep(found: Site, key: str, **more: object) -> int:
    """Keep a delivery; returns its number."""
    body = more.pop("body", b'{"zen": "<script>"}')
    given = {"provider": "github", "event": "push", "received_at": 5.0, "headers": {}, **more}
    delivery = Delivery.model_validate({"key": key, "body": body, **given})
    assert await found.store.deliveries.add(delivery)
    [(number, _)] = await found.store.deliveries.list(limit=1)
    return number


async def waiting(found: Site, name: str, branch: str, head: str) -> None:
    """Add a lifecycle that waits for the merge of its pull request."""
    word = Signal(type="pr_created", summary="", pr_url="u")
    work = PrPending(since=1.0, until=9e9, word=word, url="u", number=7, head=head)
    record = AgentLifecycle(agent_id=name, task="x", task_id=name, work=work)
    record.facts["branch"] = branch
    record.derive()
    await found.store.create(record)


async def test_one_delivery_is_told_whole_bounded_and_without_secrets(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        found.engine.shared.masker.learn({"API_KEY": "sesame-open-123456"})
        long = json.dumps({"key": "sesame-open-123456", "text": "x" * 200_000}).encode()
        number = await keep(found, "github:1", body=long, headers={"x-github-event": "push"})
        told = await found.get(f"/deliveries/{number}")
        assert told["headers"] == {"x-github-event": "push"}
        assert told["size"] == len(long)
        assert told["cut"]
        assert len(told["body"]) == MOST_BODY
        assert "sesame" not in told["body"]
        assert told["why"] == "It is stored and not worked on yet."
        error = (await found.get("/deliveries/9999", 404))["error"]
        assert error["text"] == "there is no delivery 9999"
        await found.get("/deliveries/x", 422)


async def test_a_delivery_that_matched_nothing_says_why_and_what_it_was_compared_with(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        unmatched = {"state": DeliveryState.UNMATCHED, "settled_at": 6.0}
        alone = await keep(found, "github:1", **unmatched, hint=Hint(sha=SHA, repo="me/parcel"))
        told = await found.get(f"/deliveries/{alone}")
        assert "It is about commit 77aa01c of me/parcel." in told["why"]
        assert "No lifecycle waits for a forge or CI." in told["why"]
        await waiting(found, "a", "agent/a", "b" * 40)
        assert (
            "1 lifecycle waits outside, for other commits."
            in (await found.get(f"/deliveries/{alone}"))["why"]
        )
        near = await keep(found, "github:2", **unmatched, hint=Hint(branch="agent/a", sha=SHA))
        told = await found.get(f"/deliveries/{near}")
        assert "a waits on this branch for another commit: bbbbbbb." in told["why"]
        (row,) = told["compared"]
        assert (row["agent_id"], row["number"], row["waits"]) == ("a", 7, True)
        assert "github is not in the setting `providers` (local)" in told["why"]
        other = AgentLifecycle(
            agent_id="b", task="x", work=AwaitingHuman(about=About.QUESTION, text="?", since=1.0)
        )
        other.facts["branch"] = "agent/b"
        other.derive()
        await found.store.create(other)
        ours = await keep(found, "github:3", **unmatched, hint=Hint(branch="agent/b"))
        told = await found.get(f"/deliveries/{ours}")
        assert "that of b, which is needs you and waits for no check" in told["why"]
        assert [row["agent_id"] for row in told["compared"]] == ["b", "a"]


async def test_a_replayed_delivery_goes_through_the_one_inbox_and_tells_its_outcome(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        number = await keep(found, "github:1", state="ignored", outcome="no", settled_at=6.0)
        # Nobody works on deliveries in this world, so it stays in the inbox.
        told = await found.post(f"/deliveries/{number}/replay", {"wait": 0}, 202)
        assert told["state"] == "received"
        assert told["outcome"] == "to be worked on again, asked for by api"
        assert [each.key for each in await found.store.deliveries.waiting()] == ["github:1"]
        (asked,) = [
            each
            for each in await found.store.requests()
            if type(each.event).__name__ == "DeliveriesOrder"
        ]
        assert asked.agent_id is None
        acts = [(each.action, each.subject) for each in await found.store.trail.entries()]
        assert ("replay", "github:1") in acts
        await found.post("/deliveries/9999/replay", status=404)
        await found.store.deliveries.settle(["github:1"], DeliveryState.MATCHED, "woke a", at=9.0)
        assert (await found.get(f"/deliveries/{number}"))["why"].endswith("Woke a.")


async def test_webhooks_are_counted_by_state_with_the_last_one_of_each_sender(
    tmp_path: Path,
) -> None:
    async with site(tmp_path, HOOKED) as found, client_of(found.server.url, "") as stranger:
        empty = await found.get("/webhooks")
        assert set(empty["by_state"].values()) == {0}
        await stranger.post("/hooks/github", content=PING, headers=signed(PING))
        told = await found.get("/webhooks")
        assert told["by_state"]["received"] == 1
        by_name = {each["name"]: each for each in told["senders"]}
        assert by_name["github"]["secret_set"]
        assert (by_name["github"]["count"], by_name["gitea"]["count"]) == (1, 0)
        assert by_name["github"]["last_at"] > 0
        assert not by_name["gitlab"]["secret_set"]
        variable = by_name["gitlab"]["secret_variable"]
        assert variable.startswith("LOOPWRIGHT_GITLAB_")
        assert "sesame" not in json.dumps(told)
