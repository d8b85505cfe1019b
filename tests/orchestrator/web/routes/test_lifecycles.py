"""Lifecycles over HTTP: added, read, steered, and judged, as by command."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock

from lifecycle.engine import requests
from lifecycle.machine.states import About, AwaitingHuman, Completed, Queued
from lifecycle.record import AgentLifecycle
from lifecycle.store.sqlite.store import SqliteStore
from tests.lifecycle.store.damaging import garble_for_good
from tests.orchestrator.loopkit import ASK, BLOCK, DONE, SETTINGS
from tests.orchestrator.web.webkit import Site, site
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

WORK = [{"say": "one"}, {"say": "two"}, {"write": "new.txt"}, {"commit": "new"}, DONE]
HANGS = {"text": "Do it", "command": "sleep 60"}
ASKS = {"attempts": {"1": [{"say": "hm"}, ASK], "default": WORK}}


async def test_a_task_that_is_added_starts_is_answered_completes_and_is_accepted(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("asks", ASKS)
        await found.comes_to("AwaitingHuman", agent)
        refused = await found.post(f"/lifecycles/{agent}/accept", status=409)
        assert refused["error"]["code"] == "refused"
        assert "only completed work can be accepted" in refused["error"]["text"]
        told = await found.post(
            f"/lifecycles/{agent}/answer",
            {"text": "green"},
            headers={"x-loopwright-actor": "Ada \u00a0 L.".encode("latin-1")},
        )
        assert told["changed"]
        assert told["lifecycle"]["agent_id"] == agent
        await found.comes_to("Completed", agent)
        told = await found.post(f"/lifecycles/{agent}/accept")
        assert told["lifecycle"]["state"] == "accepted"
        assert told["into"] == "main"
        entries = (await found.get(f"/lifecycles/{agent}/events"))["items"]
        by = {each["event"]["kind"]: each["event"].get("by") for each in entries}
        assert by["Answered"] == "Ada L."
        assert by["AcceptRequested"] == "api"
    assert "new.txt" in found.world.git("ls-tree", "--name-only", "main")


async def test_one_and_many_have_the_form_that_the_commands_print(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("asks", ASKS)
        await found.comes_to("AwaitingHuman", agent)
        kept = found.engine.machine.paths.snapshot(agent, 1)
        await until(kept.exists, "the snapshot is kept for people")
        whole = await found.get(f"/lifecycles/{agent}")
        listed = await found.get("/lifecycles")
        instances = await found.get("/instances?ended=true")
        entries = await found.get(f"/lifecycles/{agent}/events?limit=1000")
        summary = await found.get(f"/lifecycles/{agent}/summaries/1")
        summaries = await found.get(f"/lifecycles/{agent}/summaries")
    assert whole.pop("runner")["pid"] == os.getpid()
    assert "Blue or green?" in whole["why"]
    assert (summaries["items"], summaries["next_attempt"]) == ([1], 2)

    def printed() -> tuple[Any, ...]:
        world = found.world
        return (
            world.json("show", agent),
            world.json("ps")["lifecycles"],
            world.json("instances", "--all"),
            world.json("events", agent),
            world.json("summary", agent, "1"),
        )

    # In a thread: commands have event loops of their own.
    show, ps, seen, journal, told = await asyncio.to_thread(printed)
    assert (show.pop("runner"), show.pop("opinion")) == (None, None)
    assert (show.pop("comes_along"), show.pop("merged_as")) == ([], None)
    assert show.pop("resolution") == {"commits": [], "files": []}
    # What is said of the future depends on whether a runner is alive.
    assert show.pop("why").partition(";")[0] == whole.pop("why").partition(";")[0]
    for each in (*instances["items"], *seen):
        del each["observed_at"]
    assert whole == show
    assert listed["items"] == ps
    assert instances["items"] == seen
    assert entries["items"] == journal
    assert summary == told


async def fill(found: Site, count: int) -> None:
    for number in range(count):
        asks = AwaitingHuman(about=About.QUESTION, text="?", since=1.0)
        work = (Queued(), Completed(summary="x"), asks)[number % 3]
        record = AgentLifecycle(
            agent_id=f"a{number:03d}",
            task=f"Task {number}",
            task_id=f"T{number}",
            work=work,
            created_at=1000.0 + number,
            tags=("even",) if number % 2 == 0 else (),
        )
        record.derive()
        await found.store.create(record)


async def pages(found: Site, query: str) -> list[str]:
    """Return the agents of all pages."""
    seen: list[str] = []
    cursor = ""
    while True:
        page = await found.get(f"/lifecycles?{query}{cursor}")
        seen += [each["agent_id"] for each in page["items"]]
        if page["next"] is None:
            return seen
        cursor = f"&cursor={page['next']}"


async def test_an_agents_earlier_lifecycles_are_listed_and_shown_apart(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        await fill(found, 3)
        old = await found.store.get("a001")
        assert old is not None
        new = AgentLifecycle(agent_id="a001", task="Next", task_id="T9", work=Queued())
        await found.store.create_next(new, old)
        assert await pages(found, "limit=2") == ["a001", "a002", "a000"]
        assert await pages(found, "earlier=a001") == [old.earlier_id]
        assert await pages(found, "earlier=a000") == []
        assert (await found.get("/lifecycles/a001"))["earlier"] == [old.earlier_id]
        shown = await found.get(f"/lifecycles/{old.earlier_id}")
        assert (shown["lifecycle"]["task"], shown["earlier"]) == ("Task 1", [])


async def test_pages_follow_each_other_without_gap_or_repetition(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        await fill(found, 57)
        assert await pages(found, "limit=10") == [f"a{n:03d}" for n in reversed(range(57))]


async def test_a_filter_leaves_what_fits_on_every_page(tmp_path: Path) -> None:
    fitting: dict[str, Callable[[int], bool]] = {
        "state=queued": lambda n: n % 3 == 0,
        "state=queued&state=done": lambda n: n % 3 in (0, 1),
        "state=NEEDS%20YOU": lambda n: n % 3 == 2,
        "state=done&record_state=completed&tag=even": lambda n: n % 3 == 1 and n % 2 == 0,
        "state=done&record_state=running": lambda _: False,
        "record_state=queued&record_state=completed": lambda n: n % 3 in (0, 1),
        "state=given-up": lambda _: False,
        "tag=even": lambda n: n % 2 == 0,
        "task=T7": lambda n: n == 7,
        "created_after=1010": lambda n: n > 10,
        "created_after=1010&created_before=1020&tag=even": lambda n: 10 < n < 20 and n % 2 == 0,
        "created_before=1010&state=queued": lambda n: n < 10 and n % 3 == 0,
        "earlier=a007": lambda _: False,
        "work=AwaitingHuman": lambda n: n % 3 == 2,
        "work=AwaitingHuman&tag=even": lambda n: n % 3 == 2 and n % 2 == 0,
        "work=Working": lambda _: False,
    }
    async with site(tmp_path) as found:
        await fill(found, 40)
        for query, fits in fitting.items():
            seen = await pages(found, f"{query}&limit=3")
            assert seen == [f"a{n:03d}" for n in reversed(range(40)) if fits(n)], query


async def test_what_is_not_there_or_cannot_be_is_told_in_one_form(tmp_path: Path) -> None:
    answers = {
        "/lifecycles/nobody": 404,
        "/lifecycles/nobody/events": 404,
        "/lifecycles/nobody/summaries": 404,
        "/lifecycles/nobody/summaries/1": 404,
        "/lifecycles/nobody/attempts/1/log": 404,
        "/nothing": 404,
        "/events": 406,
        "/lifecycles?limit=0": 422,
        "/lifecycles?limit=1001": 422,
        "/lifecycles?cursor=-1": 422,
        "/lifecycles?cursor=99999999999999999999": 422,
        "/lifecycles?state=happy": 422,
        "/lifecycles?state=completed": 422,
        "/lifecycles?record_state=done": 422,
        "/lifecycles?work=happy": 422,
        "/lifecycles/x/attempts/x/log": 422,
        "/instances?tag=%00": 422,
    }
    async with site(tmp_path) as found:
        for path, status in answers.items():
            error = (await found.get(path, status))["error"]
            assert set(error) == {"code", "text", "what_to_do"}
            assert error["what_to_do"]


async def test_a_log_is_given_whole_in_parts_and_by_its_end(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await found.add(
            "works", [{"say": "<b>one</b>"}, {"say": "two"}, {"say": "3"}, DONE]
        )
        await found.comes_to("Completed", agent)
        path = f"/api/v1/lifecycles/{agent}/attempts/1/log"
        whole = await found.client.get(path)
        assert whole.status_code == 200
        assert "<b>one</b>\ntwo\n3\n" in whole.text
        assert whole.headers["content-type"] == "text/plain; charset=utf-8"
        assert whole.headers["x-content-type-options"] == "nosniff"
        data = whole.content
        for asked, got in (
            ("bytes=2-5", data[2:6]),
            ("bytes=4-", data[4:]),
            ("bytes=-3", data[-3:]),
            ("bytes=0-999999", data),
        ):
            part = await found.client.get(path, headers={"range": asked})
            assert (part.status_code, part.content) == (206, got)
            assert part.headers["content-range"].endswith(f"/{len(data)}")
        none = await found.client.get(path, headers={"range": f"bytes={len(data)}-"})
        assert none.status_code == 416
        assert none.headers["content-range"] == f"bytes */{len(data)}"
        tail = await found.client.get(path, params={"tail": 2})
        assert tail.text == "".join(whole.text.splitlines(keepends=True)[-2:])
        assert (await found.client.get(path.replace("/1/", "/9/"))).status_code == 404


async def test_a_link_that_an_agent_put_in_place_of_its_log_is_not_followed(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("works", [DONE])
        await found.comes_to("Completed", agent)
        secret = tmp_path / "secret"
        secret.write_text("sesame")
        log = found.engine.machine.paths.log(agent, 1)
        log.unlink()
        log.symlink_to(secret)
        assert log.read_text() == "sesame"
        await found.get(f"/lifecycles/{agent}/attempts/1/log", 404)


async def test_pause_resume_guide_unblock_stop_and_reject(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("blocked", {"attempts": {"1": [BLOCK], "default": [{"hang": {}}]}})
        await found.comes_to("Blocked", agent)
        told = await found.post(f"/lifecycles/{agent}/pause", {"turns": 100_000})
        assert told["lifecycle"]["work"]["kind"] == "Suspended"
        # Turns pass meanwhile.
        assert 90_000 < told["lifecycle"]["work"]["tally"]["pause_turns"] <= 100_000
        error = (await found.post(f"/lifecycles/{agent}/pause", status=409))["error"]
        assert "is paused already; continue with: loopwright resume" in error["text"]
        await found.post(f"/lifecycles/{agent}/guide", {"text": "Mind the gap"})
        told = await found.post(f"/lifecycles/{agent}/resume")
        assert told["lifecycle"]["work"]["kind"] == "Blocked"
        await found.post(f"/lifecycles/{agent}/unblock", {"text": "the key is there"})
        await found.comes_to("Working", agent)
        kept = found.engine.machine.paths.prompt(agent, 2)
        await until(
            lambda: kept.exists() and "Mind the gap" in kept.read_text(),
            "the prompt is kept for people, with the guidance in it",
        )
        prompt = kept.read_text()
        assert "the key is there" in prompt
        await found.post(f"/lifecycles/{agent}/stop")
        await found.comes_to("Suspended", agent)
        told = await found.post(f"/lifecycles/{agent}/reject", {"why": "not wanted"})
        assert told["lifecycle"]["state"] == "rejected"
        assert (await found.post(f"/lifecycles/{agent}/reject"))["lifecycle"]["error"]
        error = (await found.post(f"/lifecycles/{agent}/guide", {"text": "x"}, 409))["error"]
        assert "it is over" in error["text"]


async def test_what_is_asked_in_vain_is_refused_with_the_reason_logged_once_and_audited(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("done", WORK)
        await found.comes_to("Completed", agent)
        for verb in ("pause", "stop", "resume"):
            error = (await found.post(f"/lifecycles/{agent}/{verb}", status=409))["error"]
            assert error["text"] == f"{agent} is done; there is nothing to {verb}"
        await found.post("/lifecycles/nobody/pause", status=404)
        logged = [(event, fields) for event, fields in found.reports if "operation" in fields]
        assert [(event, told["operation"], told["agent_name"]) for event, told in logged] == [
            ("lifecycle_operation", "add_agent", agent),
            ("lifecycle_validation_failed", "pause_agent", agent),
            ("lifecycle_validation_failed", "stop_agent", agent),
            ("lifecycle_validation_failed", "resume_agent", agent),
            ("lifecycle_validation_failed", "pause_agent", "nobody"),
        ]
        assert "lifecycle_illegal_transition" not in {event for event, _ in found.reports}
        refused = [
            each
            for each in await found.store.trail.entries(limit=1000)
            if each.outcome == "refused"
        ]
        assert [(each.action, each.subject) for each in refused] == [
            ("suspend", agent), ("stop", agent), ("resume", agent), ("suspend", "nobody"),
        ]  # fmt: skip


async def test_why_somebody_asks_is_kept(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("blocked", {"attempts": {"1": [BLOCK], "default": WORK}})
        await found.comes_to("Blocked", agent)
        for verb in ("pause", "resume", "unblock"):
            await found.post(f"/lifecycles/{agent}/{verb}", {"why": f"to {verb} it"})
        await found.comes_to("Completed", agent)
        await found.post(f"/lifecycles/{agent}/accept", {"why": "to accept it"})
        entries = (await found.get(f"/lifecycles/{agent}/events"))["items"]
        kept = {each["event"]["kind"]: each["event"].get("why") for each in entries}
        assert kept["PauseRequested"] == "to pause it"
        assert kept["ResumeRequested"] == "to resume it"
        assert kept["Unblocked"] == "to unblock it"
        assert kept["AcceptRequested"] == "to accept it"


async def test_a_wish_that_is_not_decided_in_time_stays_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteStore, "request_outcome", AsyncMock(return_value=None))
    async with site(tmp_path) as found:
        agent = await found.add("asks", ASKS)
        await found.comes_to("AwaitingHuman", agent)
        answer = await found.client.post(
            f"/api/v1/lifecycles/{agent}/answer", json={"text": "green", "wait": 0}
        )
        assert answer.status_code == 202
        assert not answer.json()["changed"]
        await found.comes_to("Completed", agent)


UNUSABLE: tuple[object, ...] = (
    {}, {"text": ""}, {"text": "  "}, {"text": "x", "unknown": 1},
    {"text": "x", "name": "../x", "command": "true"},
    {"text": "x", "name": "-rf", "command": "true"},
    {"text": "x", "name": "a..b", "command": "true"},
    {"text": "x", "command": "no-such-program-anywhere"},
    {"text": "x", "command": "true '"},
    {"text": "x", "command": "tr\u0000ue"},
    {"text": "x", "agent": "nobody"}, {"text": "x", "command": "true", "issue": "JIRA-1"},
    {"text": "x", "command": "true", "base": "no-such-branch"},
    {"text": "x", "command": "true", "base": "--upload-pack=x"},
    {"text": "\ud800", "command": "true"},
    ["text"], "text",
)  # fmt: skip


async def test_what_cannot_be_run_is_refused_and_nothing_is_recorded(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        for body in UNUSABLE:
            answer = await found.client.post(
                "/api/v1/lifecycles",
                content=json.dumps(body),
                headers={"content-type": "application/json"},
            )
            assert answer.status_code == 422, (body, answer.text)
            assert answer.json()["error"]["code"] == "invalid"
        assert (await found.get("/lifecycles"))["items"] == []
        await found.post("/lifecycles", {"text": "x", "command": "true"}, 201)


async def test_a_budget_that_cannot_hold_its_program_refuses_a_task_with_the_ways_out(
    tmp_path: Path,
) -> None:
    limits = f"{SETTINGS}budget_usd = 5.0\nday_budget_tokens = 9\n"
    async with site(tmp_path) as found:
        found.world.settings(limits)
        refused = await found.post("/lifecycles", HANGS | {"name": "a"}, 422)
        assert (await found.get("/lifecycles"))["items"] == []
        found.world.settings(f'{limits}budget_exempt = ["command"]\n')
        added = await found.post("/lifecycles", HANGS | {"name": "b"}, 201)
        found.world.settings(f"{SETTINGS}budget_hours = 5.0\n")
        held = await found.post("/lifecycles", HANGS | {"name": "c"}, 201)
        logged = [fields for event, fields in found.reports if event == "budget_unheld"]
    told = "the program sleep reports no tokens or dollars, so it cannot be held to"
    assert f"{told} day_budget_tokens and budget_usd" in str(refused["error"])
    assert 'budget_exempt = ["command"]' in str(refused["error"])
    [text] = added["warnings"]
    assert text.startswith(told)
    assert held["warnings"] == []
    assert logged == [{"agent_id": "b", "reason": text}]


async def test_the_warnings_are_those_that_the_command_tells(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        found.world.settings(f'{SETTINGS}plan_budget_usd = 5.0\nbudget_exempt = ["command"]\n')
        [text] = (await found.post("/lifecycles", HANGS, 201))["warnings"]
    # In a thread: commands have event loops of their own.
    done = await asyncio.to_thread(found.world.call, "add", "Do it", "--command", "sleep 60")
    assert text in done.stderr.splitlines()


async def test_many_are_added_at_once_and_each_has_its_own_name(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        names = await asyncio.gather(*(found.add("same", [{"hang": {}}]) for _ in range(5)))
        assert sorted(names) == ["same", "same_1", "same_2", "same_3", "same_4"]


async def test_nobody_acts_under_a_name_of_the_runner(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("asks", ASKS)
        await found.comes_to("AwaitingHuman", agent)
        for name in ("shutdown", "Runner", "a"[:0], "\u00e9" * 500):
            await found.post(
                f"/lifecycles/{agent}/guide",
                {"text": "x"},
                headers={"x-loopwright-actor": name.encode()},
            )
        entries = (await found.get(f"/lifecycles/{agent}/events?limit=1000"))["items"]
        names = [each["event"]["by"] for each in entries if each["event"]["kind"] == "Guided"]
        assert names[:3] == ["api"] * 3
        assert len(names[3]) == 80


async def test_one_damaged_record_is_named_in_lists_and_hides_no_other(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        one, two = await found.add("one", ASKS), await found.add("two", ASKS)
        for agent in (one, two):
            await found.comes_to("AwaitingHuman", agent)
        garble_for_good(found.engine.machine.paths.database, one)
        for query in ("", "?work=AwaitingHuman", "?state=needs-you"):
            page = await found.get(f"/lifecycles{query}")
            assert [(each["agent_id"], each["damaged"]) for each in page["items"]] == [
                (two, ""), (one, "invalid UTF-8 in work"),
            ]  # fmt: skip
            assert "loopwright doctor" in page["items"][1]["waiting_for"]
            assert {each["state"] for each in page["items"]} == {"needs-you"}
        told = await found.get(f"/lifecycles/{one}", status=503)
        assert f"the record of {one} is damaged" in told["error"]["text"]
        assert "loopwright doctor" in told["error"]["what_to_do"]
        assert (await found.get(f"/lifecycles/{two}"))["lifecycle"]["agent_id"] == two


async def test_an_order_is_taken_up_at_once_and_not_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "LOOK_EVERY", 3600.0)
    async with site(tmp_path) as found:
        agents = [await found.add(name, [{"hang": {}}]) for name in ("one", "two")]
        for agent in agents:
            await found.comes_to("Working", agent)
        stops = [found.post(f"/lifecycles/{each}/stop", {"why": "enough"}) for each in agents]
        told = await asyncio.gather(*stops)
        assert all(each["changed"] for each in told), told
