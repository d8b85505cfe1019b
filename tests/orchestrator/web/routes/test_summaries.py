"""Summaries over HTTP: of the next attempt too, compared, edited without loss, and approved."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.context.snapshot import MAX_SUMMARY_BYTES
from orchestrator.control.summaries import sections
from templates.fence import fence
from tests.orchestrator.loopkit import ASK, BLOCK, DONE, SETTINGS
from tests.orchestrator.web.webkit import Site, site
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

ASKS = {"attempts": {"1": [ASK], "default": [{"commit": "new"}, DONE]}}


async def put(found: Site, path: str, body: Any, status: int = 200, **more: Any) -> Any:
    answer = await found.client.put(f"/api/v1{path}", json=body, **more)
    assert answer.status_code == status, answer.text
    return answer.json()


async def asking(found: Site) -> str:
    """Bring an agent to its question; returns its path."""
    agent = await found.add("asks", ASKS)
    await found.comes_to("AwaitingHuman", agent)
    await until(found.engine.machine.paths.prompt(agent, 1).exists, "the handout is kept")
    return f"/lifecycles/{agent}"


async def test_the_next_summary_is_told_before_its_attempt_with_sizes_facts_and_prompt(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        path = await asking(found)
        told = await found.get(f"{path}/summaries")
        assert told == {"items": [1], "next_attempt": 2, "waits": True, "held": False, "edits": []}
        following = await found.get(f"{path}/summaries/2")
        assert following["path"] is None
        assert not following["edited"]
        assert following["text"].startswith("# Summary for attempt 2")
        assert following["bytes"] == sum(each["bytes"] for each in following["sections"])
        assert following["bytes"] <= following["most_bytes"] == MAX_SUMMARY_BYTES
        assert "What to do now" in [each["name"] for each in following["sections"]]
        again = await found.get(f"{path}/summaries/2")
        assert again["version"] == following["version"]
        assert (await found.get(f"{path}/snapshots/1"))["next_attempt"] == 1
        facts = await found.get(f"{path}/snapshots/2")
        assert (facts["next_attempt"], facts["last_outcome"]["kind"]) == (2, "question")
        for attempt in (1, 2):
            prompt = await found.client.get(f"/api/v1{path}/prompts/{attempt}")
            assert prompt.headers["content-type"].startswith("text/plain")
            assert "Do asks" in prompt.text
        for missing in ("summaries/3", "snapshots/3", "prompts/3", "summaries/3/diff"):
            assert (await found.get(f"{path}/{missing}", 404))["error"]["what_to_do"]


async def test_what_changed_is_told_against_the_one_before_or_a_named_one(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        path = await asking(found)
        told = await found.get(f"{path}/summaries/2/diff")
        assert told["against"] == 1
        assert "+# Summary for attempt 2" in told["diff"]
        assert told["added"] > 0 < told["removed"]
        assert await found.get(f"{path}/summaries/2/diff?against=1") == told
        assert (await found.get(f"{path}/summaries/1/diff"))["against"] is None
        await found.get(f"{path}/summaries/2/diff?against=2", 404)


async def test_an_edit_counts_only_for_the_text_that_was_looked_at_and_says_who_wrote_it(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        found.engine.shared.masker.learn({"API_KEY": "sesame-open-123456"})
        path = await asking(found)
        version = (await found.get(f"{path}/summaries/2"))["version"]
        ada = {"x-loopwright-actor": "Ada"}
        mine = {"text": "Use setex, not sesame-open-123456.\n", "version": version}
        shown = await put(found, f"{path}/summaries/2", mine, headers=ada)
        assert shown["edited"]
        assert shown["text"].startswith("Use setex, not ***")
        late = {"text": "Mine!", "version": version}
        error = (await put(found, f"{path}/summaries/2", late, 409))["error"]
        assert "changed meanwhile" in error["text"]
        etag = {"if-match": f'"{version}"'}
        await put(found, f"{path}/summaries/2", {"text": "Mine!"}, 409, headers=etag)
        assert (await found.get(f"{path}/summaries/2"))["text"] == shown["text"]
        etag = {"if-match": f'W/"{shown["version"]}"'}
        back = await put(found, f"{path}/summaries/2", {"text": " "}, headers=etag)
        assert (back["edited"], back["version"]) == (False, version)
        edits = (await found.get(f"{path}/summaries"))["edits"]
        assert [(each["by"], each["attempt"]) for each in edits] == [("Ada", 2), ("api", 2)]
        assert "sesame" not in json.dumps(edits)
        assert edits[0]["text"] == shown["text"]


@pytest.mark.parametrize(
    ("attempt", "text", "status", "words"),
    [
        (1, "x", 409, "only the summary of the next attempt can be changed, which is 2"),
        (3, "x", 409, "which is 2"),
        (2, "x" * (MAX_SUMMARY_BYTES + 1), 422, "a summary at most 16384"),
    ],
)
async def test_what_was_told_already_and_what_is_too_long_cannot_be_written(
    tmp_path: Path, attempt: int, text: str, status: int, words: str
) -> None:
    async with site(tmp_path) as found:
        path = await asking(found)
        told = await put(found, f"{path}/summaries/{attempt}", {"text": text}, status)
        assert words in told["error"]["text"]
        assert (await found.get(f"{path}/summaries"))["edits"] == []


async def test_while_an_attempt_works_a_text_can_be_written_for_the_one_after_it(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("works", [{"hang": {}}])
        await found.comes_to("Working", agent)
        path = f"/lifecycles/{agent}"
        told = await found.get(f"{path}/summaries")
        assert (told["next_attempt"], told["waits"]) == (2, False)
        shown = await put(found, f"{path}/summaries/2", {"text": "Only this.\n"})
        assert (shown["attempt"], shown["text"], shown["edited"]) == (2, "Only this.\n", True)


async def test_an_attempt_that_is_held_starts_when_the_summary_that_was_seen_is_approved(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        found.world.settings(f"{SETTINGS}review_summaries = true\n")
        agent = await found.add("blocks", {"attempts": {"1": [BLOCK], "default": [{"hang": {}}]}})
        await found.comes_to("AwaitingHuman", agent)
        path = f"/lifecycles/{agent}"
        assert (await found.get(f"{path}/summaries"))["held"]
        shown = await found.get(f"{path}/summaries/1")
        await put(found, f"{path}/summaries/1", {"text": "Go.", "version": shown["version"]})
        stale = {"version": shown["version"]}
        error = (await found.post(f"{path}/summaries/1/approve", stale, 409))["error"]
        assert "changed since you looked at it" in error["text"]
        fresh = {"version": (await found.get(f"{path}/summaries/1"))["version"], "why": "read"}
        told = await found.post(f"{path}/summaries/1/approve", fresh)
        assert told["changed"]
        assert told["text"] == "its summary is approved"
        await found.comes_to("Blocked", agent)
        error = (await found.post(f"{path}/summaries/2/approve", status=409))["error"]
        assert "no summary of it waits for approval" in error["text"]
        await found.post(f"{path}/summaries/7/approve", status=409)
        await found.post("/lifecycles/nobody/summaries/1/approve", status=404)


async def test_a_person_holds_the_next_attempt_until_its_summary_is_approved(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("fails", {"attempts": {"1": [BLOCK], "default": [{"hang": {}}]}})
        await found.comes_to("Blocked", agent)
        path = f"/lifecycles/{agent}"
        await found.post(f"{path}/summaries/1/hold", status=409)
        told = await found.post(f"{path}/summaries/2/hold")
        assert told["lifecycle"]["state"] == "paused"
        assert (await found.get(f"{path}/summaries"))["held"]
        await found.post(f"{path}/unblock", {"text": "go on"})
        assert (await found.get(path))["lifecycle"]["state"] == "paused"
        version = (await found.get(f"{path}/summaries/2"))["version"]
        told = await found.post(f"{path}/summaries/2/approve", {"version": version})
        assert told["changed"]
        await found.comes_to("Working", agent)


def test_sections_are_cut_at_headings_and_not_within_what_is_quoted() -> None:
    quoted = fence("# Not a heading\n## Nor this", "a log")
    text = f"Hello\n\n# One\n\n{quoted}\n\n## Two\nöö\n"
    found = sections(text)
    assert [each["name"] for each in found] == ["Beginning", "One", "Two"]
    assert sum(each["bytes"] for each in found) == len(text.encode())
    assert sections("") == []
