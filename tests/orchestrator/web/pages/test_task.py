"""The page of one task and the logs of its attempts."""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING

import pytest

from orchestrator.web.edge.passes import VisitorRole
from orchestrator.web.formats import plain_why
from tests.orchestrator.loopkit import ASK, DONE, SETTINGS
from tests.orchestrator.web.pages.browsing import browser, text_of
from tests.orchestrator.web.webkit import site

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "<script>alert(1)</script> \u202eevil"
WORK = [{"say": "one"}, {"say": HOSTILE}, {"write": "new.txt"}, {"commit": "new"}, DONE]


async def test_a_task_tells_state_reason_attempts_gates_and_journal(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        agent = await found.add("work", WORK, verify=["true"])
        await found.comes_to("Completed", agent)
        told = await found.get(f"/lifecycles/{agent}/story")
        page = await visit.page(f"/t/{agent}")
    [attempt] = told["attempts"]
    assert [(each["command"], each["ok"]) for each in attempt["gates"]] == [("true", True)]
    assert (attempt["verified"], attempt["paid"]) == (True, "nobody")
    words = text_of(page)
    for said in ("Ready to review", "Attempts 1", "gates: true", "the verify command passed"):
        assert said in words
    assert f'href="/review/{agent}"' in page
    assert f'href="/t/{agent}/attempts/1"' in page
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert page.count("<h1") == 1


async def test_gates_that_are_red_show_what_they_printed_and_cost_a_retry(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        agent = await found.add("red", WORK, verify=["echo too bad; false"])
        await found.comes_to("BackingOff", agent)
        told = await found.get(f"/lifecycles/{agent}/story")
        words = await visit.text(f"/t/{agent}")
    assert told["attempts"][-1]["paid"] == "retry"
    assert "gates red" in words
    assert "too bad" in words


async def test_trying_again_is_offered_once_its_limit_allows_it(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        found.world.settings(f"{SETTINGS}max_retries = 0\n")
        agent = await found.add("fails", [{"exit": 1}])
        await found.comes_to("Rejected", agent)
        pages = (f"/t/{agent}", f"/review/{agent}")
        for path in pages:
            page = await visit.page(path)
            assert f'action="/t/{agent}/resume"' not in page, path
            assert "0 of 0 retries used: raise max_retries first" in text_of(page), path
        refused = (await found.post(f"/lifecycles/{agent}/resume", status=409))["error"]["text"]
        assert "which `loopwright settings` shows with the place where it is set" in refused
        [waits] = (await found.get("/review"))["items"]
        assert waits["commands"][0] == f"loopwright show {agent} --why"
        found.world.settings(f"{SETTINGS}max_retries = 1\n")
        for path in pages:
            assert f'action="/t/{agent}/resume"' in await visit.page(path), path
        await visit.send(f"/t/{agent}/resume")
        await found.post(f"/lifecycles/{agent}/reject")
        assert f'action="/t/{agent}/resume"' not in await visit.page(f"/t/{agent}")


async def test_a_question_is_answered_on_the_page_and_a_viewer_only_reads(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("asks", [{"say": "hm"}, ASK])
        await found.comes_to("AwaitingHuman", agent)
        async with browser(found) as visit:
            page = await visit.page(f"/t/{agent}")
            assert f'action="/t/{agent}/answer"' in page
            assert "Blue or green?" in text_of(page)
        async with browser(found, VisitorRole.VIEWER) as visit:
            page = await visit.page(f"/t/{agent}")
            assert "Blue or green?" in text_of(page)
            assert not re.findall(r'method="post" action="/t/', page)


async def test_ids_of_agents_lead_to_the_short_address_and_unknown_ones_to_a_page(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        await found.post("/lifecycles", {"text": "x", "name": "agent-T1", "command": "true"}, 201)
        answer = await visit.client.get("/t/agent-T1")
        assert (answer.status_code, answer.headers["location"]) == (303, "/t/T1")
        await visit.page("/t/T1")
        await visit.page("/t/T9", 404)
        await visit.page("/t/T1/attempts/77", 404)


async def test_a_log_is_paged_searched_and_filtered_without_scripts(tmp_path: Path) -> None:
    lines = "i=0; while [ $i -lt 1200 ]; do echo line $i; i=$((i+1)); done"
    async with site(tmp_path) as found, browser(found) as visit:
        body = {"text": "x", "name": "says", "command": f"sh -c '{lines}; echo error: bad'"}
        agent = (await found.post("/lifecycles", body, 201))["lifecycle"]["agent_id"]
        await found.comes_to("BackingOff", agent)
        page = await visit.page(f"/t/{agent}/attempts/1")
        assert "error: bad" in page
        assert "line 1199" in page
        assert "line 600<" not in page
        [above] = re.findall(r'class="cut" href="([^"]*before=[^"]*)"', page)
        assert "line 600<" in await visit.page(above)
        errors = text_of(await visit.page(f"/t/{agent}/attempts/1?errors=1"))
        assert "error: bad" in errors
        assert "line 1199" not in errors
        hit = await visit.text(f"/t/{agent}/attempts/1?q=LINE+17")
        assert "Found “LINE 17”" in hit
        assert "line 179" in hit
        assert "was not found" in await visit.text(f"/t/{agent}/attempts/1?q=nowhere")


async def test_state_attempts_and_journal_change_while_one_looks(tmp_path: Path) -> None:
    script = {"attempts": {"1": [{"say": "hm"}, ASK], "default": WORK}}
    async with site(tmp_path) as found, browser(found) as visit:
        agent = await found.add("asks", script)
        await found.comes_to("AwaitingHuman", agent)
        page = await visit.page(f"/t/{agent}")
        [address] = re.findall(r'data-live="([^"]+)"', page)
        seen = dict[str, str]()
        async with visit.client.stream("GET", html.unescape(address)) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data:"):
                    told = json.loads(line.removeprefix("data:"))
                    seen[told["name"]] = told.get("html", "")
                    if told["name"] == "hello":
                        await visit.send(f"/t/{agent}/answer", {"text": "green"})
                if "Ready to review" in seen.get(f"hero:{agent}", ""):
                    break
    for part in ("hero", "attempts", "events"):
        assert f'data-event="{part}:{agent}"' in page
        assert part + f":{agent}" in seen
    assert f'name="csrf" value="{visit.guard}"' in seen[f"hero:{agent}"]


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ("Done since 9:00; `loopwright accept T1` merges it, `loopwright reject T1` drops it; look",
         "Done since 9:00; look."),
        ("It starts when that is done, or with `loopwright unblock T1`.",
         "It starts when that is done."),
        ("Stopped: nothing moves until `loopwright up`; working.",
         "Stopped: nothing moves until `loopwright up`; working."),
    ],
)  # fmt: skip
def test_a_reason_names_no_command_that_has_a_button(told: str, left: str) -> None:
    assert plain_why(told) == left
