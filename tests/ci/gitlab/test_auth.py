"""Which token signs us in at GitLab, and which headers it makes."""

from __future__ import annotations

import base64

import pytest

from ci.forge.sign_in import SignInContext, TokenSignIn
from ci.gitlab import sign_in, token_sign_in

OAUTH = "0123456789abcdef" * 4


def made(token: str) -> TokenSignIn:
    return token_sign_in("a test", token)


def found_in(environ: dict[str, str], host: str) -> TokenSignIn | None:
    return sign_in(SignInContext(environ=environ, host=host))


@pytest.mark.parametrize(
    ("token", "header"),
    [
        ("glpat-1", {"PRIVATE-TOKEN": "glpat-1"}),
        ("of-ones-own-prefix", {"PRIVATE-TOKEN": "of-ones-own-prefix"}),
        (OAUTH, {"Authorization": f"Bearer {OAUTH}"}),
        ("eyJ0.eyJ1.s-_g", {"Authorization": "Bearer eyJ0.eyJ1.s-_g"}),
        ("glcbt-64_x", {"JOB-TOKEN": "glcbt-64_x"}),
    ],
)
async def test_each_kind_of_token_has_its_header(token: str, header: dict[str, str]) -> None:
    assert await made(token).sign() == header


@pytest.mark.parametrize(
    ("token", "pair"),
    [("glpat-1", "oauth2:glpat-1"), ("glcbt-1", "gitlab-ci-token:glcbt-1")],
)
async def test_git_is_signed_in_by_name_and_token(token: str, pair: str) -> None:
    scheme, _, encoded = (await made(token).git_header())["Authorization"].partition(" ")
    assert (scheme, base64.b64decode(encoded).decode()) == ("Basic", pair)


def test_our_own_variable_comes_first_and_empty_ones_do_not_count() -> None:
    both = {"LOOPWRIGHT_GITLAB_TOKEN": " ours\n", "GITLAB_TOKEN": "theirs"}
    found = found_in(both, "gitlab.com")
    assert found is not None
    assert (found.source, found.token) == ("LOOPWRIGHT_GITLAB_TOKEN", "ours")
    found = found_in({**both, "LOOPWRIGHT_GITLAB_TOKEN": " "}, "gitlab.com")
    assert found is not None
    assert found.source == "GITLAB_TOKEN"
    assert found_in({}, "gitlab.com") is None


@pytest.mark.parametrize("name", ["GITLAB_HOST", "GL_HOST"])
@pytest.mark.parametrize("named", ["git.example.org", "https://git.example.org/"])
def test_a_token_of_another_host_is_not_shown_to_this_one(name: str, named: str) -> None:
    environ = {"GITLAB_TOKEN": "theirs", name: named}
    assert found_in({"GITLAB_TOKEN": "theirs"}, "gitlab.com") is not None
    assert found_in(environ, "gitlab.com") is None
    assert found_in(environ, "git.example.org") is not None
    assert found_in({**environ, "LOOPWRIGHT_GITLAB_TOKEN": "ours"}, "gitlab.com") is not None


def test_a_token_is_not_shown_by_accident() -> None:
    assert "glpat-1" not in repr(made("glpat-1"))
