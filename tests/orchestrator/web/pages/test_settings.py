"""The page of settings: origins, what an agent changed, decisions of admins, bad files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.web.edge.passes import VisitorRole
from tests.orchestrator.loopkit import SETTINGS
from tests.orchestrator.web.pages.browsing import browser
from tests.orchestrator.web.routes.test_configuration import changed_by_agent, wall_limit
from tests.orchestrator.web.webkit import site

if TYPE_CHECKING:
    from pathlib import Path


async def test_settings_are_shown_with_their_origin_and_a_bad_file_is_named(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        words = await visit.text("/settings")
        assert "retry_interval" in words
        assert "loopwright.toml" in words
        assert "Waits for you" not in words
        found.world.settings("wall_limt = 5\n")
        words = await visit.text("/settings")
        assert "wall_limt" in words
        assert "Correct the file" in words
        found.world.settings(SETTINGS)


async def test_an_admin_approves_or_refuses_what_an_agent_changed(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        (held,) = (await changed_by_agent(found))["held"]
        words = await visit.text("/settings")
        assert "60 becomes 900" in words
        assert "Tidy up" in words
        await visit.send("/settings/refuse", {"change": held["id"], "why": "too <b>long</b>"})
        page = await visit.page("/settings")
        assert "Refused by Ada" in page
        assert "too &lt;b&gt;long" in page
        assert "tick at least one" in (await visit.send("/settings/approve", status=422)).text
        await visit.send("/settings/approve", {"change": held["id"]})
        assert wall_limit(await found.get("/settings"))["value"] == 900
        assert "becomes" not in await visit.text("/settings")


async def test_an_operator_sees_what_waits_and_decides_nothing(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        (held,) = (await changed_by_agent(found))["held"]
        async with browser(found, VisitorRole.OPERATOR) as visit:
            words = await visit.text("/settings")
            assert "Only an admin decides on these." in words
            await visit.send("/settings/approve", {"change": held["id"]}, status=403)
        assert wall_limit(await found.get("/settings"))["value"] == 60


async def test_what_doctor_finds_is_shown_when_it_is_asked_for(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        assert "it takes a few seconds" in await visit.text("/settings")
        words = await visit.text("/settings?doctor=1")
        assert "Check it again" in words
        assert "git" in words
