"""What holds for every page: headers, files, errors, and nothing from elsewhere."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from orchestrator.web.pages.site import FOLDER
from orchestrator.web.pages.static_files import FOLDER as STATIC_FOLDER
from orchestrator.web.pages.static_files import files, static
from tests.orchestrator.web.pages.browsing import HTML, anyone, browser
from tests.orchestrator.web.webkit import site

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_page_takes_nothing_from_elsewhere_and_bears_the_headers_of_a_safe_one(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        answer = await visit.client.get("/")
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert not re.findall(r'(?:src|href|action)="(?:https?:)?//', answer.text)
        assert "<script>" not in answer.text


def test_no_template_has_a_script_or_a_style_within() -> None:
    for path in FOLDER.rglob("*.html"):
        text = path.read_text("utf-8")
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", text), path.name


async def test_files_are_kept_for_ever_under_the_address_that_names_what_they_hold(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, anyone(found) as client:
        for name in files():
            answer = await client.get(static(name))
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert (await client.get(f"/static/{name}")).headers["cache-control"] == "no-cache"
        assert (await client.get("/static/../site.py")).status_code in {303, 404}
        assert (await client.get("/static/none.js")).status_code == 404


def test_what_was_taken_from_others_is_as_it_came() -> None:
    listed = (STATIC_FOLDER / "VENDORED.txt").read_text("utf-8")
    sums = dict(re.findall(r"^([0-9a-f]{64})  (\S+)$", listed, re.MULTILINE))
    assert set(sums.values()) == {"htmx.min.js"}
    for digest, name in sums.items():
        assert hashlib.sha256((STATIC_FOLDER / name).read_bytes()).hexdigest() == digest


async def test_a_browser_reads_a_page_about_what_is_missing_and_a_program_reads_json(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        assert "There is no such page" in await visit.text("/nothing", 404)
        answer = await found.client.get("/api/v1/nothing", headers=HTML)
        assert answer.json()["error"]["code"] == "unknown"
