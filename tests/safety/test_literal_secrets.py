"""Secrets that stand in command lines and other texts are told from what only looks like them."""

from __future__ import annotations

import pytest

from runtime.masking.masker import secrets_in

WORD = "s3cretOfThePager"


@pytest.mark.parametrize(
    "line",
    [
        f"send --token {WORD} --to me",
        f"send --api-key={WORD}",
        f"PAGER_PASSWORD={WORD} ./send",
        f"curl -H 'Authorization: Bearer {WORD}' https://p.example",
        f'curl -d \'{{"token": "{WORD}"}}\' https://p.example',
        f"curl -u me:{WORD} https://p.example",
        f"curl https://me:{WORD}@p.example/x",
        f"curl https://p.example/x?token={WORD}&to=me",
        f"send -H X-Api-Key:{WORD}",
    ],
)
def test_a_secret_in_a_command_line_is_found_and_nothing_else(line: str) -> None:
    assert secrets_in(line) == [WORD]


@pytest.mark.parametrize(
    "line",
    [
        "send --token $PAGER_TOKEN",
        "send --token-file /run/secrets/pager",
        "send --token=env:PAGER_TOKEN",
        "docker run --user 1000:1000 image",
        "pytest -k 'tokens and keys' --maxfail=1",
        "the token is kept elsewhere",
        "max_tokens=100000",
        "git push -u origin main",
        "send --password changeme",
    ],
)
def test_what_only_looks_like_one_is_left(line: str) -> None:
    assert secrets_in(line) == []
