"""What an agent writes becomes text on a page, and nothing else."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.wording.markdown import MOST, rendered

PLAIN = {
    *("p", "br", "hr", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li"),
    *("h3", "h4", "h5", "h6", "a", "span", "table", "thead", "tbody", "tr", "th", "td"),
}


class _Found(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def harmless(html: str) -> None:
    """Hold HTML to what may stand on a page."""
    for tag, attributes in _Found(html).tags:
        assert tag in PLAIN
        allowed = {"a": {"href", "rel"}, "span": {"class"}, "ol": {"start"}}.get(tag, set())
        assert set(attributes) <= allowed
        if tag == "a":
            assert re.match("https?:", attributes["href"] or "", re.IGNORECASE)
            assert attributes["rel"] == "noopener nofollow noreferrer"


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("<script>alert(1)</script>", "<script"),
        ("<img src=x onerror=alert(1)>", "<img"),
        ("<svg/onload=alert(1)>", "<svg"),
        ("a<!-- b -->c", "<!--"),
        ("<style>*{display:none}</style>", "<style"),
        ("![tracked](https://evil.example/pixel.png)", "<img"),
        ("![x][1]\n\n[1]: https://evil.example/pixel.png", "<img"),
        ("[x](javascript:alert(1))", "href"),
        ("[x](JaVaScRiPt:alert(1))", "href"),
        ("[x](java\tscript:alert(1))", "href"),
        ("[x](&#106;avascript:alert(1))", "href"),
        ("[x](vbscript:x)", "href"),
        ("[x](data:text/html;base64,PHNjcmlwdD4=)", "href"),
        ("[x](file:///etc/passwd)", "href"),
        ("[x](//evil.example/)", "href"),
        ("[x](/lifecycles/T1/accept)", "href"),
        ("[x](#main)", "href"),
        ("<javascript:alert(1)>", "href"),
        ('[x](https://a.example "onmouseover=alert(1)")', "title"),
        ('[x](https://a.example/"onclick="alert(1))', "onclick="),
        ("[x](https://[)", "href"),
        ("|a|\n|:-:|\n|b|", "style"),
        ("```<script>\nx\n```", "<script"),
        ("`<b onclick=x>`", "<b "),
        ("safe \u202egnp.exe\u202c \u200bzero", "\u202e"),
        ("\x1b[31mred\x1b[0m \x00 end", "\x1b"),
        ("&lt;script&gt;alert(1)&lt;/script&gt;", "<script"),
    ],
)
def test_hostile_words_are_only_words(text: str, never: str) -> None:
    html = rendered(text)
    assert never not in re.sub(r'href="https?://[^"]*"', 'link="', html)
    harmless(html)


@given(st.text(alphabet=st.characters(codec="utf-8") | st.sampled_from("<>[]()!`*_#|-&;:/\n\"' ")))
def test_whatever_is_written_is_harmless(text: str) -> None:
    harmless(rendered(text))


def test_a_lone_surrogate_is_no_defect() -> None:
    assert "?" in rendered("a \ud800 b")


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("[docs](https://docs.example/a?b=1)", ">docs</a> <span"),
        ("[docs][1]\n\n[1]: https://docs.example/a", ">docs</a> <span"),
        ("[bank.example](https://you:x@docs.example/)", ">bank.example</a> <span"),
    ],
)
def test_a_link_says_where_it_leads(text: str, link: str) -> None:
    html = rendered(text)
    assert link in html
    assert '<span class="host">(docs.example)</span>' in html


def test_a_bare_address_is_not_named_twice() -> None:
    html = rendered("<https://docs.example/a>")
    assert html.count("docs.example") == 2
    assert "span" not in html


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("# a\n## b\n### c", "345"),
        ("### a\n# b\n## c", "334"),
        ("# a\n###### b\n# c", "343"),
        ("# a\n## b\n### c\n#### d\n##### e", "34566"),
    ],
)
def test_headings_stand_below_those_of_the_page(text: str, levels: str) -> None:
    assert "".join(re.findall(r"<h(\d)>", rendered(text))) == levels


def test_lists_code_and_tables_are_shown() -> None:
    html = rendered("1. one\n2. `two`\n\n- x\n\n|a|b|\n|-|-|\n|1|2|\n\n    code\n\n~~gone~~")
    for part in ("<ol>", "<code>two</code>", "<ul>", "<td>1</td>", "<pre>", "<s>gone</s>"):
        assert part in html


def test_what_is_too_long_is_cut_and_says_so() -> None:
    html = rendered("x" * (MOST + 17))
    assert "17 more characters are not shown" in html


@pytest.mark.parametrize("piece", ["[", "![", "[a](", "*a ", "_a", "**a *b ", ">", "- ", "|", "<"])
def test_no_text_takes_long(piece: str) -> None:
    begun = time.process_time()
    rendered(piece * (MOST // len(piece)))
    assert time.process_time() - begun < 2.0
