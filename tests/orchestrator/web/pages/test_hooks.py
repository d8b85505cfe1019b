"""The pages of webhooks: empty, full, one of them, replay, and text that means harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.webhook_delivery import DeliveryState, Hint
from orchestrator.web.edge.passes import VisitorRole
from tests.orchestrator.web.pages.browsing import browser
from tests.orchestrator.web.routes.test_deliveries import keep
from tests.orchestrator.web.webkit import site

if TYPE_CHECKING:
    from pathlib import Path


async def test_without_any_webhook_the_page_says_how_to_set_one_up(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        words = await visit.text("/hooks")
        assert "No webhook has arrived yet." in words
        assert "LOOPWRIGHT_GITHUB_HOOK_SECRET" in words
        assert f"{found.server.url}/hooks/github" in words


async def test_the_list_is_filtered_by_the_address_and_a_delivery_says_why(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        await keep(found, "github:1", state="ignored", outcome="a comment", settled_at=6.0)
        hint = Hint(sha="77aa01c" + "0" * 33)
        number = await keep(
            found, "github:2", state=DeliveryState.UNMATCHED, hint=hint, settled_at=6.0
        )
        words = await visit.text("/hooks?state=unmatched")
        assert "unmatched 1" in words
        assert "a comment" not in words
        assert "a comment" in await visit.text("/hooks")
        page = await visit.page(f"/hooks/{number}?state=unmatched")
        assert "It is about commit 77aa01c." in page
        assert 'aria-current="true"' in page
        assert "There is none in this state" in await visit.text("/hooks?state=broken")
        assert "there is no delivery 999" in await visit.text("/hooks/999", 404)
        # Senders have names: what a stranger sends there is refused as before.
        assert (await visit.client.get("/hooks/github")).status_code == 405


async def test_a_replay_from_the_page_is_audited_under_the_visitors_name(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        number = await keep(found, "github:1", state="ignored", outcome="no", settled_at=6.0)
        answer = await visit.send(f"/hooks/{number}/replay")
        assert answer.headers["location"] == f"/hooks/{number}?replayed=1"
        words = await visit.text(f"/hooks/{number}?replayed=1")
        assert "It is put back and not worked on yet." in words
        acts = [each for each in await found.store.trail.entries() if each.action == "replay"]
        assert [each.actor for each in acts] == ["Ada"]


async def test_a_viewer_sees_webhooks_and_replays_none(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found, VisitorRole.VIEWER) as visit:
        number = await keep(found, "github:1", state="ignored", outcome="no", settled_at=6.0)
        assert "Replay" not in await visit.text(f"/hooks/{number}")
        await visit.send(f"/hooks/{number}/replay", status=403)
        assert await found.store.deliveries.waiting() == ()


async def test_what_a_sender_wrote_is_shown_as_text(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        evil = "<script>alert(1)</script>\u202e<svg onload=x>"
        number = await keep(
            found,
            "github:<img src=x>",
            event=evil,
            outcome=evil,
            headers={"x-github-event": evil},
            body=b'{"a": "<script>alert(2)</script>"}',
            state="broken",
            settled_at=6.0,
        )
        for path in ("/hooks", f"/hooks/{number}"):
            page = await visit.page(path)
            assert "<script>alert" not in page
            assert "<svg onload" not in page
            assert "<img src=x" not in page
            assert "\u202e" not in page
