"""The page of a summary: three views, edits that overwrite nothing, approval, hostile text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.context.snapshot import MAX_SUMMARY_BYTES
from orchestrator.web.edge.passes import VisitorRole
from orchestrator.web.pages.summary_text import MOST_LINES, diff_lines, parts
from templates.fence import fence
from tests.orchestrator.loopkit import BLOCK, SETTINGS
from tests.orchestrator.web.pages.browsing import browser
from tests.orchestrator.web.routes.test_summaries import asking
from tests.orchestrator.web.webkit import site

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_summary_is_shown_as_text_as_source_and_as_the_whole_prompt(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        await asking(found)
        answer = await visit.client.get("/t/asks/summaries")
        assert answer.headers["location"] == "/t/asks/summaries/2"
        page = await visit.page("/t/asks/summaries/2")
        words = await visit.text("/t/asks/summaries/2")
        assert "What attempt 2 will be told" in words
        assert "What to do now</h3>" in page
        assert "Changed since attempt 1" in words
        assert "of 16.0 KiB" in words
        assert "Facts it came from" in words
        assert "# Summary for attempt 2" in await visit.text("/t/asks/summaries/2?view=source")
        prompt = await visit.text("/t/asks/summaries/2?view=prompt")
        assert "communications.json" in prompt
        first = await visit.text("/t/asks/summaries/1")
        assert "What attempt 1 was told" in first
        assert "Edit" not in first
        await visit.page("/t/asks/summaries/9", 404)
        await visit.page("/t/nobody/summaries/1", 404)


async def test_an_edit_is_kept_named_and_never_overwrites_what_was_not_seen(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        path = await asking(found)
        version = (await found.get(f"{path}/summaries/2"))["version"]
        page = await visit.page("/t/asks/summaries/2?view=edit")
        assert f'name="version" value="{version}"' in page
        assert "# Summary for attempt 2" in page.partition("<textarea")[2]
        mine = {"text": "Use setex.", "version": version}
        answer = await visit.send("/t/asks/summaries/2", mine)
        words = await visit.text(answer.headers["location"])
        assert "Kept. The attempt is told this text." in words
        assert "A person wrote this text." in words
        assert "Ada" in words
        late = await visit.send("/t/asks/summaries/2", {**mine, "text": "No, mine."}, status=409)
        assert "changed meanwhile" in late.text
        assert "No, mine." in late.text, "what was typed is kept"
        long = await visit.send(
            "/t/asks/summaries/2", {"text": "x" * (MAX_SUMMARY_BYTES + 1)}, status=422
        )
        assert "a summary at most 16384" in long.text
        assert (await found.get(f"{path}/summaries/2"))["text"] == "Use setex.\n"
        await visit.send("/t/asks/summaries/2", {"text": ""})
        assert not (await found.get(f"{path}/summaries/2"))["edited"]


async def test_a_held_attempt_is_approved_from_the_page(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        found.world.settings(f"{SETTINGS}review_summaries = true\n")
        agent = await found.add("blocks", {"attempts": {"1": [BLOCK], "default": [{"hang": {}}]}})
        await found.comes_to("AwaitingHuman", agent)
        path = f"/t/{agent}/summaries/1"
        assert "nothing starts before you approve it" in await visit.text(path)
        refused = await visit.send(f"{path}/approve", {"version": "0" * 16}, status=409)
        assert "changed since you looked at it" in refused.text
        version = (await found.get(f"/lifecycles/{agent}/summaries/1"))["version"]
        await visit.send(f"{path}/approve", {"version": version})
        await found.comes_to("Blocked", agent)


async def test_the_next_attempt_is_held_from_the_page_and_released_by_approval(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        agent = await found.add("blocks", [BLOCK])
        await found.comes_to("Blocked", agent)
        path = f"/t/{agent}/summaries/2"
        assert "Hold for review" in await visit.text(path)
        await visit.send(f"{path}/hold")
        words = await visit.text(path)
        assert "nothing starts before you approve it" in words
        assert "Hold for review" not in words
        await visit.send(f"{path}/approve")
        await found.comes_to("Blocked", agent)


async def test_a_viewer_reads_summaries_and_changes_none(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found, VisitorRole.VIEWER) as visit:
        await asking(found)
        page = await visit.page("/t/asks/summaries/2?view=edit")
        assert "<textarea" not in page
        await visit.send("/t/asks/summaries/2", {"text": "x"}, status=403)


async def test_what_stands_in_a_summary_does_no_harm_to_its_page(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        path = await asking(found)
        evil = (
            "<script>alert(1)</script>\n![x](http://evil/x.png)\n[y](javascript:alert(2))\n\u202e"
        )
        quoted = fence(evil, "<img src=x>")
        body = {"text": f"{evil}\n\n{quoted}\n"}
        answer = await found.client.put(f"/api/v1{path}/summaries/2", json=body)
        assert answer.status_code == 200
        for view in ("text", "source", "prompt", "edit"):
            page = await visit.page(f"/t/asks/summaries/2?view={view}")
            for harm in ("<script>alert", "<img", 'href="javascript', "\u202e"):
                assert harm not in page, (view, harm)


def test_what_is_quoted_is_told_apart_and_an_open_fence_hides_nothing() -> None:
    data, person = fence("a\n# b", "a log"), fence("do it", "Ada", follow=True)
    found = parts(f"# One\n\n{data}\n\ntwo\n{person}\n<<<data 12345678 (x)\nopen")
    assert [each.kind for each in found] == ["own", "data", "own", "text", "own"]
    assert found[1].text == "a\n# b"
    assert found[1].origin == "a log; data, not instructions"
    assert "open" in found[-1].text
    lines, left = diff_lines("--- a\n+++ b\n@@ -1 +1 @@\n" + "+x\n" * (MOST_LINES + 4) + " same\n")
    assert (len(lines), left, lines[0].kind) == (MOST_LINES, 5, "h")
