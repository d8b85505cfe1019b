"""An agent's Markdown as HTML that can do no harm: its words, and the summaries made of them.

No HTML of the text gets through, no image is fetched, and a link shows where it leads. Must not
know who wrote it, or on which page it stands.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import nh3
from markdown_it import MarkdownIt

from runtime.logs.files import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.token import Token

MOST = 32 * 1024
"""Characters that are rendered; summaries are shorter, and what is longer is cut and says so."""
TOP = 3
"""The level of the first heading: those above it are the page's own."""
_LOWEST = 6
_NESTED = 20
_TAGS = {
    *("p", "br", "hr", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li"),
    *("h2", "h3", "h4", "h5", "h6", "a", "span", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES: dict[str, set[str]] = {"*": set(), "a": {"href"}, "ol": {"start"}}
_SCHEMES = {"http", "https"}
_NAME = re.compile(r"[a-z0-9.-]+")
"""Of a host; others are in punycode by then, or an attempt to look like one."""


def rendered(text: str, *, top: int = TOP) -> str:
    """Return safe HTML; it needs no escaping."""
    shown = clean(text.encode("utf-8", "replace").decode())
    left_out = len(shown) - MOST
    if left_out > 0:
        shown = f"{shown[:MOST]}\n\n[{left_out} more characters are not shown]"
    reader = _reader()
    tokens = reader.parse(shown)
    _level(tokens, top)
    return nh3.clean(
        reader.renderer.render(tokens, reader.options, {}),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes={"span": {"host"}},
        url_schemes=_SCHEMES,
        link_rel="noopener nofollow noreferrer",
    )


@functools.cache
def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTED})
    reader.enable(["table", "strikethrough"]).disable(["image"])
    # What may not be a link stays the text that was written.
    reader.validateLink = lambda url: bool(_host(url))  # type: ignore[method-assign]  # as its documentation says
    reader.add_render_rule("link_close", _link_close)
    return reader


def _link_close(_: object, tokens: Sequence[Token], at: int, *__: object) -> str:
    """Return the end of a link, and where it leads unless its own text says so."""
    begin = next(each for each in reversed(tokens[:at]) if each.type == "link_open")
    href = str(begin.attrGet("href") or "")
    if begin.markup == "autolink":
        return "</a>"
    return f'</a> <span class="host">({_host(href)})</span>'


def _host(url: str) -> str:
    """Return where an address leads; nothing if it may not be a link."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return ""
    return host if parts.scheme.lower() in _SCHEMES and _NAME.fullmatch(host) else ""


def _level(tokens: Sequence[Token], top: int) -> None:
    """Let the headings begin below the page's own, and go down one step at a time."""
    above = list[str]()
    for token in tokens:
        if token.type == "heading_open":
            while above and above[-1] >= token.tag:
                above.pop()
            above.append(token.tag)
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(top + len(above) - 1, _LOWEST)}"
