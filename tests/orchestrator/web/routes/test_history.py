"""Search and audit over HTTP: as by command, and of what happened a moment ago."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.store.search.texts import KINDS
from orchestrator.control.search import KINDS_IN_WORDS
from orchestrator.web.routes.history import Kind
from tests.orchestrator.loopkit import ASK, DONE
from tests.orchestrator.web.webkit import site

if TYPE_CHECKING:
    from pathlib import Path

WORK = [{"write": "new.txt"}, {"commit": "new"}, DONE]
ASKS = {"attempts": {"1": [ASK], "default": WORK}}


async def test_what_was_asked_and_said_is_found_at_once_with_its_state(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("asks", ASKS)
        await found.comes_to("AwaitingHuman", agent)
        told = await found.get("/search", params={"q": "do asks"})
        assert [each["lifecycle"]["agent_id"] for each in told["items"]] == [agent]
        assert told["items"][0]["lifecycle"]["state"] == "needs-you"
        assert told["by_state"] == {"needs-you": 1}
        assert told["index"] == {"whole": True, "taken_in": 1, "of": 1}
        await found.post(f"/lifecycles/{agent}/answer", {"text": "the <b>Mauve</b> one"})
        told = await found.get("/search", params={"q": "mauv", "kind": "people"})
        [place] = told["items"][0]["found"]
        assert place == {
            "kind": "people",
            "attempt": None,
            "parts": [
                {"text": "the <b>", "marked": False},
                {"text": "Mauve", "marked": True},
                {"text": "</b> one", "marked": False},
            ],
        }
        nothing = await found.get("/search", params={"q": "mauve", "kind": "checks"})
        assert nothing["items"] == []
        assert (await found.get("/search", params={"q": '") *:^'}))["items"] == []


async def test_an_index_that_cannot_be_used_is_said_and_disturbs_nothing_else(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        (found.world.repo / ".loopwright" / "search.db").mkdir()
        agent = await found.add("works", {"attempts": {"default": WORK}})
        refused = await found.get("/search", 503, params={"q": "works"})
        assert refused["error"]["code"] == "search"
        assert "search.db cannot be written" in refused["error"]["text"]
        await found.comes_to("Completed", agent)


async def test_the_audit_is_read_in_pages_by_who_and_whom_and_its_chain_is_checked(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("asks", ASKS)
        await found.comes_to("AwaitingHuman", agent)
        name = {"x-loopwright-actor": "Ada"}
        await found.post(f"/lifecycles/{agent}/answer", {"text": "green"}, headers=name)
        await found.comes_to("Completed", agent)
        everything = (await found.get("/audit"))["items"]
        numbers = [each["seq"] for each in everything]
        assert numbers == sorted(numbers, reverse=True)
        [mine] = (await found.get("/audit", params={"actor": "Ada", "subject": agent}))["items"]
        assert (mine["action"], mine["reason"]) == ("answer", "green")
        page = await found.get("/audit", params={"limit": 1})
        assert page["next"] == numbers[0]
        rest = await found.get("/audit", params={"cursor": page["next"], "limit": 1000})
        assert [each["seq"] for each in rest["items"]] == numbers[1:]
        verdict = await found.get("/audit/verdict")
        assert verdict["whole"]
        assert verdict["head"]["hash"] == everything[0]["hash"]


def test_every_kind_of_text_has_a_name_for_people() -> None:
    assert tuple(KINDS_IN_WORDS) == KINDS == Kind.__args__  # type: ignore[attr-defined]  # of a Literal


async def test_nights_costs_and_limits_are_told_as_by_command(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("works", {"attempts": {"default": WORK}})
        await found.comes_to("Completed", agent)
        [night] = (await found.get("/history"))["nights"]
        assert [each["lifecycle"]["agent_id"] for each in night["items"]] == [agent]
        assert night["by_state"] == {"done": 1}
        assert (await found.get("/history", params={"state": "rejected"}))["nights"] == []
        told = await found.get("/costs", params={"by": "hour", "attempts": 5})
        assert told["total"]["attempts"] == 1
        assert told["total"]["cost_usd"] is None
        assert [each["ended"] for each in told["attempts"]] == ["well"]
        refused = await found.get("/costs", 422, params={"since": "soon"})
        assert "`night`" in refused["error"]["text"]
        assert (await found.get("/budgets")) == {"items": [], "programs": []}


async def test_a_page_to_send_is_handed_out_to_be_saved(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("works", {"attempts": {"default": WORK}})
        await found.comes_to("Completed", agent)
        for asked in ({"agent": agent}, {"since": "night"}):
            answer = await found.client.get("/api/v1/export", params=asked)
            assert answer.headers["content-type"].startswith("text/html")
            assert answer.headers["content-disposition"].startswith("attachment")
            assert "new.txt" in answer.text
        await found.get("/export", 422)
        await found.get("/export", 404, params={"agent": "nobody"})
        await found.get("/export", 422, params={"since": "soon"})
