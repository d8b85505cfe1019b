"""Which token signs us in at Gitea or Forgejo, and which headers it makes."""

from __future__ import annotations

import base64

import pytest

from ci.forge.sign_in import SignInContext, TokenSignIn
from ci.gitea import VARIABLES, sign_in, token_sign_in


def found_in(environ: dict[str, str], host: str) -> TokenSignIn | None:
    return sign_in(SignInContext(environ=environ, host=host))


async def test_a_token_makes_the_headers_of_the_api_and_of_git() -> None:
    made = token_sign_in("a test", "t-1")
    assert await made.sign() == {"Authorization": "token t-1"}
    scheme, _, encoded = (await made.git_header())["Authorization"].partition(" ")
    assert (scheme, base64.b64decode(encoded).decode()) == ("Basic", "oauth2:t-1")
    assert "t-1" not in repr(made)


@pytest.mark.parametrize("name", VARIABLES)
def test_each_variable_is_read(name: str) -> None:
    found = found_in({name: " t-1\n"}, "codeberg.org")
    assert found is not None
    assert (found.source, found.token) == (name, "t-1")


def test_our_own_variable_comes_first_and_empty_ones_do_not_count() -> None:
    everything = {name: name.lower() for name in VARIABLES}
    found = found_in(everything, "codeberg.org")
    assert found is not None
    assert found.source == "LOOPWRIGHT_GITEA_TOKEN"
    found = found_in({**everything, "LOOPWRIGHT_GITEA_TOKEN": ""}, "codeberg.org")
    assert found is not None
    assert found.source == "GITEA_TOKEN"
    assert found_in({}, "codeberg.org") is None
