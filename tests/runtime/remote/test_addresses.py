"""An address is understood to its last character, or refused; what signs in is in none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime.errors import RepositoryError
from runtime.remote.address import understood, without_credentials
from runtime.remote.errors import cleaned, explained, secrets_of

if TYPE_CHECKING:
    from pathlib import Path

SIGN = {"Authorization": "Bearer abcdefgh"}


@pytest.mark.parametrize(
    ("url", "scheme", "given", "origin"),
    [
        (
            "https://github.com/o/r.git",
            "https",
            "https://github.com/o/r.git",
            "https://github.com/",
        ),
        ("https://u:p@host:8443/r", "https", "https://host:8443/r", "https://host:8443/"),
        ("https://token@host/r", "https", "https://host/r", "https://host/"),
        ("http://[::1]:3000/r", "http", "http://[::1]:3000/r", "http://[::1]:3000/"),
        ("ssh://git@host:22/~/r", "ssh", "ssh://git@host:22/~/r", ""),
        ("ssh://git:secret@host/r", "ssh", "ssh://git@host/r", ""),
        ("git@github.com:o/r.git", "ssh", "git@github.com:o/r.git", ""),
        ("work:r", "ssh", "work:r", ""),
        ("file:///srv/a%20b.git", "file", "file:///srv/a%20b.git", ""),
        ("/srv/r.git", "file", "/srv/r.git", ""),
        ("../a b:c/r", "file", "{above}/a b:c/r", ""),
        ("-r", "file", "{base}/-r", ""),
    ],
)
def test_an_address_is_taken_as_it_is_without_what_signs_in(
    url: str, scheme: str, given: str, origin: str, tmp_path: Path
) -> None:
    found = understood(url, tmp_path)
    wanted = given.format(base=tmp_path, above=tmp_path.parent)
    assert (found.scheme, found.url, found.origin) == (scheme, wanted, origin)


@pytest.mark.parametrize(
    "url",
    [
        "", "\0", "ext::sh -c true", "fd::3", "::x", "https::https://host/r", "git://host/r",
        "ftp://host/r", "HTTPS://host/r", "x://host/r", "file://other/srv/r", "https:///r",
        "https://host\\@evil/r", "https://host /r", "https://host/a b", "https://ho\tst/r",
        "https://-host/r", "https://host:port/r", "https://host:/r", "https://[::1/r",
        "https://höst/r", "ssh://-oProxyCommand=x/r", "ssh://-u@host/r", "-oProxyCommand=x:r",
        "git@-host:r", "host:r\ntouch", "a:b::c d",
    ],
)  # fmt: skip
def test_whatever_could_be_understood_in_two_ways_or_start_a_program_is_refused(
    url: str, tmp_path: Path
) -> None:
    with pytest.raises(RepositoryError, match="set-url"):
        understood(url, tmp_path)


@pytest.mark.parametrize("host", ["example.org", "10.0.0.1", "localhost.example.org", "[fe80::1]"])
def test_nothing_signs_in_over_plain_http_on_another_machine(host: str, tmp_path: Path) -> None:
    address = understood(f"http://{host}/r", tmp_path)
    assert address.header_lines({}) == ()
    with pytest.raises(RepositoryError, match="plain http"):
        address.header_lines(SIGN)
    with pytest.raises(RepositoryError, match="plain http"):
        understood(f"http://u:p@{host}/r", tmp_path).header_lines({})


def test_a_header_goes_by_the_web_alone(tmp_path: Path) -> None:
    line = ("Authorization: Bearer abcdefgh",)
    for url in (
        "https://host/r",
        "http://localhost:3000/r",
        "http://127.8.9.1/r",
        "http://[::1]/r",
    ):
        assert understood(url, tmp_path).header_lines(SIGN) == line
    for url in ("git@host:r", "ssh://host/r", "/srv/r"):
        assert understood(url, tmp_path).header_lines(SIGN) == ()


def test_what_the_address_says_signs_in_only_where_nothing_else_does(tmp_path: Path) -> None:
    address = understood("https://me:p%40ss@host/r", tmp_path)
    assert address.header_lines({}) == ("Authorization: Basic bWU6cEBzcw==",)
    assert address.header_lines(SIGN) == ("Authorization: Bearer abcdefgh",)


def test_no_secret_is_left_in_words() -> None:
    lines = ("Authorization: Basic Ym90OmNhbmFyeS10b2tlbg==", "Private-Token: glpat-12345")
    secrets = secrets_of(lines)
    said = (
        "Basic Ym90OmNhbmFyeS10b2tlbg== Ym90OmNhbmFyeS10b2tlbg== bot:canary-token canary-token "
        "glpat-12345 https://me:other@host/r"
    )
    assert cleaned(said, secrets) == "*** *** *** *** *** https://host/r"
    assert without_credentials("https://me:pass@host/r") == "https://host/r"
    assert cleaned("a\x1b]0;title\x07b\x1b[2Jc\x9b\u202ed\r\n e") == "abc d e"
    assert len(cleaned("x" * 10_000)) < 700


def test_the_words_of_a_server_and_the_names_in_quotes_are_no_cause() -> None:
    said = "remote: Permission denied (publickey)\nfatal: no '/certificate timed out.git'"
    assert explained(said).startswith("git says: ")
    assert explained("").endswith("it gave no reason")
