"""The site is built from the pages as they are, has all of them, and needs nobody else's server."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MADE = runpy.run_path(str(DOCS / "build_site.py"))
FETCHED = re.compile(
    r"""(?:<script[^>]*\ssrc|<img[^>]*\ssrc|<link[^>]*\shref)=["']?(https?:[^"'>\s]+)"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("built") / "site"
    MADE["build"](built)
    return built


def test_each_page_is_in_the_site_and_in_its_navigation(site: Path) -> None:
    named = set(re.findall(r'"([\w/.-]+\.md)"', json.dumps(MADE["navigation"](DOCS))))
    for page in DOCS.rglob("*.md"):
        path = page.relative_to(DOCS)
        name = "index.html" if page.name == "README.md" else f"{page.stem}.html"
        assert (site / path.parent / name).is_file(), page
        assert str(path) in named, f"{path}: give its folder a place in PARTS of build_site.py"


def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    fetched = {
        (str(page.relative_to(site)), address)
        for page in site.rglob("*.html")
        for address in FETCHED.findall(page.read_text("utf-8"))
    }
    assert fetched == set()


def test_its_search_knows_the_words_of_the_pages_without_a_server(site: Path) -> None:
    index = (site / "search.js").read_text("utf-8")
    assert "stay_for_people" in index


@pytest.mark.parametrize("link", ["gone.md", "README.md#nowhere"])
def test_a_link_that_leads_nowhere_ends_the_build_and_is_named(tmp_path: Path, link: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text(f"# A page\n\nSee [that]({link}).\n", "utf-8")
    with pytest.raises(SystemExit, match=r"README\.md:3"):
        MADE["build"](tmp_path / "site", tmp_path / "docs")
    assert not (tmp_path / "site").exists()
