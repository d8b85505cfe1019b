"""Addresses in the pages of one repository of several, and what is left alone."""

from __future__ import annotations

import pytest

from orchestrator.web.repositories.prefix import moved, prefixed

PLACE = "/r/app"


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        ('<a href="/t/T1">', '<a href="/r/app/t/T1">'),
        ('<a class="x" href="/">', '<a class="x" href="/r/app/">'),
        ('<form method="post" action="/new">', '<form method="post" action="/r/app/new">'),
        ('<li hx-post="/t/T1/answer">', '<li hx-post="/r/app/t/T1/answer">'),
        ('<body data-live="/ui/events?x=1">', '<body data-live="/r/app/ui/events?x=1">'),
        (
            '<meta http-equiv="refresh" content="0;url=/t/T1">',
            '<meta http-equiv="refresh" content="0;url=/r/app/t/T1">',
        ),
        (
            'data: {"html": "<a href=\\"/t/T1\\">"}',
            'data: {"html": "<a href=\\"/r/app/t/T1\\">"}',
        ),
    ],
)
def test_an_address_in_a_tag_gets_the_place_of_its_repository(html: str, shown: str) -> None:
    assert prefixed(html.encode(), PLACE).decode() == shown


@pytest.mark.parametrize(
    "html",
    [
        '<link href="/static/app.css?v=1">',
        '<form action="/login">',
        '<form action="/logout">',
        '<a href="/repositories">',
        '<a href="#main">',
        '<a href="?keys=0">',
        '<a href="//elsewhere.test/x">',
        '<a href="https://forge.test/pull/3">',
        # What an agent or a person wrote is escaped, and is no tag.
        '<pre>&lt;a href="/t/T1"&gt;</pre>',
        "<pre> href=\"/x\" action='/y'</pre>",
        '<input value="/review">',
    ],
)
def test_what_belongs_to_all_or_to_people_stays_as_it_is(html: str) -> None:
    assert prefixed(html.encode(), PLACE).decode() == html


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("/", "/r/app/"),
        ("/t/T1", "/r/app/t/T1"),
        ("/login", "/login"),
        ("/login?next=%2Ft%2FT1&ended=1", "/login?next=%2Fr%2Fapp%2Ft%2FT1&ended=1"),
        ("https://forge.test/x", "https://forge.test/x"),
        ("//forge.test/x", "//forge.test/x"),
    ],
)
def test_where_a_browser_is_sent_to(address: str, shown: str) -> None:
    assert moved(address.encode(), PLACE).decode() == shown
