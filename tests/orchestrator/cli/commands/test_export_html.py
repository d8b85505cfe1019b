"""`loopwright export --html`: one page that stands for itself and can do no harm."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from orchestrator.web.export import static_page

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.orchestrator.filled import Cli


class Tags(HTMLParser):
    """The tags of a page, and where they lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names = set[str]()
        self.targets = list[str]()
        self.handlers = list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.targets += [value or "" for name, value in attrs if name in ("src", "href")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def test_a_night_is_one_page_without_a_script_that_tells_all_of_it(
    filled: Cli, tmp_path: Path
) -> None:
    target = tmp_path / "night.html"
    filled("export", "--since", "7d", "--html", str(target))
    assert filled.code == 0
    assert f"5 lifecycles written to {target}" in filled.err
    assert target.stat().st_mode & 0o777 == 0o600
    text = target.read_text("utf-8")
    tags = Tags(text)
    assert not tags.names & {"script", "img", "iframe", "link", "form", "object"}
    assert not tags.handlers
    assert all(each.startswith("#t") for each in tags.targets)
    assert "default-src 'none'" in text
    for word in ("Tabs or spaces?", "All is done", "done.txt", "given up", "needs you", "not told"):
        assert word in text, word
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "sesame-open" not in text


def test_one_lifecycle_by_its_task_and_several_go_to_standard_output(filled: Cli) -> None:
    one = filled("export", "T002", "--html", "-")
    assert "<title>T002 Finish" in one
    assert "Tabs or spaces?" not in one
    several = filled("export", "T002", "T001", "--html", "-")
    assert "2 tasks of" in several
    assert "Tabs or spaces?" in several
    assert filled("export", "T002", "T001").count('"record"') == 2


def test_what_does_not_go_together_is_refused(filled: Cli) -> None:
    filled("export", "--html", "x.html")
    assert filled.code == 2
    filled("export", "--all", "--html", "x.html", "--output", "y.json")
    assert filled.code == 2
    assert "--html names its file itself" in filled.err
    filled("export", "--since", "soon", "--html", "-")
    assert filled.code == 2


def test_a_page_that_would_be_too_long_names_the_rest(
    filled: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static_page, "MOST", 2)
    text = filled("export", "--all", "--html", "-")
    assert len(re.findall(r'<section id="t\d">', text)) == 2
    assert "Of 3 more only this table tells" in text
    assert text.count("<tr><td>") >= 5
