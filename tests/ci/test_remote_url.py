"""Where a repository is kept, from the url of its remote."""

from __future__ import annotations

import pytest

from ci.github import api_of
from ci.remote_url import kind_of, parse


@pytest.mark.parametrize(
    ("url", "host", "path", "web"),
    [
        ("https://github.com/o/r.git", "github.com", "o/r", "https://github.com"),
        ("https://github.com/o/r", "github.com", "o/r", "https://github.com"),
        ("https://github.com/o/r/", "github.com", "o/r", "https://github.com"),
        ("https://GitHub.com/O/R.git", "github.com", "O/R", "https://github.com"),
        ("http://git.local:3000/o/r.git", "git.local", "o/r", "http://git.local:3000"),
        ("https://git.local:443/o/r.git", "git.local", "o/r", "https://git.local"),
        ("https://git.local:8443/o/r.git", "git.local", "o/r", "https://git.local:8443"),
        ("git@github.com:o/r.git", "github.com", "o/r", "https://github.com"),
        ("github.com:o/r", "github.com", "o/r", "https://github.com"),
        ("git@git.local:/o/r.git", "git.local", "o/r", "https://git.local"),
        ("ssh://git@github.com/o/r.git", "github.com", "o/r", "https://github.com"),
        ("ssh://git@git.local:2222/o/r.git", "git.local", "o/r", "https://git.local"),
        ("git+ssh://git@git.local/o/r", "git.local", "o/r", "https://git.local"),
        ("git://git.local/o/r", "git.local", "o/r", "https://git.local"),
        ("ssh://git@ssh.github.com:443/o/r.git", "github.com", "o/r", "https://github.com"),
        ("git@github.com-work:o/r.git", "github.com", "o/r", "https://github.com"),
        ("git@gitlab.com:a/b/c/r.git", "gitlab.com", "a/b/c/r", "https://gitlab.com"),
        ("ssh://git@altssh.gitlab.com:443/a/r", "gitlab.com", "a/r", "https://gitlab.com"),
        ("https://[::1]:3000/o/r", "::1", "o/r", "https://[::1]:3000"),
        ("git@[::1]:o/r", "::1", "o/r", "https://[::1]"),
        ("https://git.local/o/a%20b.git", "git.local", "o/a b", "https://git.local"),
        ("  https://github.com/o/r.git\n", "github.com", "o/r", "https://github.com"),
    ],
)
def test_a_remote_is_read_in_every_form(url: str, host: str, path: str, web: str) -> None:
    seen = parse(url)
    assert seen is not None
    assert (seen.host, seen.path, seen.web) == (host, path, web)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/srv/git/r.git",
        "./r.git",
        "../o/r.git",
        "C:\\work\\r",
        "C:/work/r",
        "file:///srv/git/o/r.git",
        "https://github.com/",
        "https://github.com/only-an-owner",
        "https:///o/r",
        "https://github.com:port/o/r",
        "https://[::1/o/r",
        "git@github.com:o/../r",
        "https://github.com/o//r",
        "github.com",
    ],
)
def test_what_is_no_repository_on_a_host_is_none(url: str) -> None:
    assert parse(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://ghp_secret@github.com/o/r.git",
        "https://x-access-token:ghp_secret@github.com/o/r.git",
        "ssh://ghp_secret@github.com/o/r",
        "ghp_secret@github.com:o/r",
        "https://o:ghp_secret@github.com:8443/o/r?token=ghp_secret#ghp_secret",
    ],
)
def test_a_secret_in_a_url_is_not_kept(url: str) -> None:
    seen = parse(url)
    assert seen is not None
    assert "ghp_secret" not in repr(seen)
    assert "ghp_secret" not in seen.place


def test_the_place_is_for_people() -> None:
    seen = parse("git@github.com:o/r.git")
    assert seen is not None
    assert seen.place == "github.com/o/r"


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("github.com", "github"),
        ("GITHUB.COM", "github"),
        ("github.example.org", "github"),
        ("octo.ghe.com", "github"),
        ("gitlab.com", "gitlab"),
        ("my-gitlab.local", "gitlab"),
        ("codeberg.org", "gitea"),
        ("gitea.com", "gitea"),
        ("forgejo.example.org", "gitea"),
        ("git.example.org", None),
        ("bitbucket.org", None),
    ],
)
def test_a_host_is_known_by_its_name(host: str, kind: str | None) -> None:
    assert kind_of(host) == kind


@pytest.mark.parametrize(
    ("web", "api"),
    [
        ("https://github.com", "https://api.github.com"),
        ("https://github.com/", "https://api.github.com"),
        ("https://octo.ghe.com", "https://api.octo.ghe.com"),
        ("https://github.example.org", "https://github.example.org/api/v3"),
        ("http://git.local:8080", "http://git.local:8080/api/v3"),
    ],
)
def test_the_api_of_a_github_follows_from_its_pages(web: str, api: str) -> None:
    assert api_of(web) == api
