"""Whatever agents, tasks, files, gates and forges say, a page shows it as text and runs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.orchestrator.web.browser.every_page import HOSTILE
from tests.orchestrator.web.browser.visit import visit

if TYPE_CHECKING:
    from playwright.async_api import Browser

    from tests.orchestrator.web.browser.scene import Scene

_HARM = """() => [
  ...(window.pwned ? ["a script of theirs ran"] : []),
  ...[...document.querySelectorAll("body *")].flatMap((each) => {
    const bad = [...each.attributes].filter((it) => /^on/i.test(it.name) || it.name === "style" ||
      (/^(href|src|action|formaction|xlink:href)$/i.test(it.name) &&
        /^\\s*(javascript|data|vbscript):/i.test(it.value)));
    const strange = ["IMG", "STYLE", "IFRAME", "OBJECT", "EMBED", "BASE", "META"]
      .includes(each.tagName) ||
      (each.tagName === "SCRIPT" && !each.src.startsWith(location.origin));
    return bad.length || strange ? [each.outerHTML.slice(0, 200)] : [];
  }),
]"""
_HIDDEN = """() => [...new Set(document.body.innerText.match(
  /[\\u202a-\\u202e\\u2066-\\u2069\\u200e\\u200f\\u0000-\\u0008\\u001b\\u009b]/g) || [])]
  .map((each) => each.codePointAt(0).toString(16))"""


async def test_nothing_of_theirs_runs_or_hides(browser: Browser, hostile: Scene) -> None:
    async with visit(browser, hostile) as found:
        found.page.on("dialog", lambda _: found.noticed.append("a dialog"))
        for path in HOSTILE:
            await found.size(1440)
            await found.goto(path)
            assert await found.page.evaluate(_HARM) == [], path
            assert await found.page.evaluate(_HIDDEN) == [], path
            await found.size(390)
            assert await found.sideways() == [], path
            await found.is_clean()
