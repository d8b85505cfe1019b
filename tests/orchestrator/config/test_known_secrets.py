"""What signs us in is known to what masks texts, wherever it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.config.known_secrets import learning, masker_of
from runtime.masking.masker import Masker

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN = "gho_0123456789abcdefABCDEF0123456789"  # noqa: S105  # made up
LATER = "ghs_fedcba9876543210FEDCBA9876543210"


async def test_a_token_that_stands_in_no_variable_is_masked_once_it_was_used() -> None:
    given = [TOKEN, TOKEN, LATER]

    async def sign() -> Mapping[str, str]:
        return {"Authorization": f"Bearer {given.pop(0)}"}

    masker = Masker()
    signed = learning(sign, masker)
    assert masker.mask(f"curl: {TOKEN}") == f"curl: {TOKEN}"
    for _ in range(3):
        await signed()
    assert masker.mask(f"{TOKEN} and {LATER}").count("***") == 4
    assert TOKEN not in masker.mask(f"curl: {TOKEN}")


def test_only_what_agents_get_or_we_use_is_looked_at() -> None:
    environ = {"SOME_OTHER_TOKEN": TOKEN, "GITHUB_TOKEN": LATER, "MY_API_KEY": TOKEN + "x"}
    assert masker_of(environ).names == ("GITHUB_TOKEN",)
    assert set(masker_of(environ, ["MY_API_KEY"]).names) == {"GITHUB_TOKEN", "MY_API_KEY"}
