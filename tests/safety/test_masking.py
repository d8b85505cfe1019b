"""Secrets in texts and streams: found in every form, at every cut, and nothing else is touched."""

from __future__ import annotations

import base64
import html
import json
import shlex
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as some

from runtime.masking import Masker, secrets_of
from tests.pace import shortest

PLANTED = "ghp_Ab3/dE+5fG7 hI9'jK\"x"
KEY_LINES = (
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
    "MSoYHyTlTfhN2Yd0Lr0v+QmW8gq1nQfXc0bZ3jP5uS7xKe4wA9tRiGoVhLpDkEzN",
    "q4Zt8uBv1XyCw==",
)
KEY = "\n".join(("-----BEGIN PRIVATE KEY-----", *KEY_LINES, "-----END PRIVATE KEY-----"))
MASKER = Masker({"TOKEN": PLANTED})

FORMS = {
    "plain": PLANTED,
    "json": json.dumps(PLANTED)[1:-1],
    "json in json": json.dumps(json.dumps({"a": PLANTED})),
    "quote": quote(PLANTED),
    "quote all": quote(PLANTED, safe=""),
    "quote plus": quote_plus(PLANTED),
    "quote lower": quote(PLANTED, safe="").replace("%2F", "%2f").replace("%2B", "%2b"),
    "shell": shlex.quote(PLANTED),
    "shell escapes": "ghp_Ab3/dE+5fG7\\ hI9\\'jK\\\"x",
    "html": html.escape(PLANTED),
    "repr": repr(PLANTED),
    "hex": PLANTED.encode().hex(),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_each_form_of_a_secret_is_masked(text: str) -> None:
    for masked in (
        MASKER.mask(f"before {text} after"),
        MASKER.mask_bytes(f"before {text} after".encode()).decode(),
    ):
        assert "***TOKEN***" in masked
        assert "fG7" not in masked
        assert PLANTED.encode().hex()[8:16] not in masked
        assert masked.startswith("before ")
        assert masked.endswith(" after")


@pytest.mark.parametrize("before", range(7))
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_is_masked_wherever_the_secret_stands_in_it(before: int, encode: object) -> None:
    assert callable(encode)
    for padding in (b"", b"x", b"xy"):
        coded = encode(b"u" * before + PLANTED.encode() + padding).decode()
        masked = MASKER.mask(coded)
        assert "***TOKEN***" in masked
        # At most the characters that its neighbours share are left.
        assert len(masked) <= len("***TOKEN***") + 4 * (before // 3 + 3)


def test_each_line_of_a_key_is_masked_and_escaped_ones_too() -> None:
    for value in (KEY, KEY.replace("\n", "\\n"), json.dumps({"private_key": KEY}, indent=1)):
        masker = Masker({"KEY": value})
        for text in (KEY, json.dumps(KEY), KEY_LINES[1], KEY_LINES[2]):
            masked = masker.mask(text)
            assert not any(line in masked for line in KEY_LINES)


def test_the_password_in_an_address_is_masked_by_itself() -> None:
    masker = Masker({"DATABASE_URL": "postgres://app:p%40ss-W0rd77@db.example/x"})
    masked = masker.mask("psql: p%40ss-W0rd77, p@ss-W0rd77, on db.example")
    assert masked == "psql: ***DATABASE_URL***, ***DATABASE_URL***, on db.example"


def test_without_secrets_nothing_is_even_copied() -> None:
    text, data = "x" * 1000, b"x" * 1000
    for masker in (Masker(), Masker({"A": "short", "TOKEN": "localhost"})):
        assert not masker
        assert masker.mask(text) is text
        assert masker.mask_bytes(data) is data
        assert masker.stream().feed(data) is data
    assert MASKER.mask(text) is text
    assert MASKER.mask_bytes(data) is data


def test_a_name_that_would_leak_is_not_told() -> None:
    masked = Masker({"pa55word-X1": "pa55word-X1"}).mask("say pa55word-X1!")
    assert masked == "say ***secret***!"


def test_overlapping_secrets_leave_no_rest() -> None:
    masker = Masker({"A": "abcdefgh12345678", "B": "12345678XYZWVUTS"})
    assert masker.mask("<abcdefgh12345678XYZWVUTS>") == "<***A***>"


def test_a_secret_learnt_later_is_masked_from_then_on() -> None:
    masker = Masker()
    masker.learn({"LATE_KEY": "zx81-spectrum-48k"})
    assert masker.mask("a zx81-spectrum-48k b") == "a ***LATE_KEY*** b"
    masker.learn({"LATE_KEY": "another-value-77"})
    assert masker.mask("zx81-spectrum-48k another-value-77") == "***LATE_KEY*** ***LATE_KEY_2***"


def test_many_secrets_are_found_in_the_fast_search_for_many() -> None:
    lines = [f"{number:02d}aB3dE5fG7hI9jK1mN3pQ5rS7tU9vW{number:02d}" for number in range(40)]
    masker = Masker({"KEY": "\n".join(lines)})
    for line in lines:
        assert masker.mask(f"xx{line}yy é") == "xx***KEY***yy é"
        assert masker.mask_bytes(b"xx" + line.encode() + b"\xff") == b"xx***KEY***\xff"


@pytest.mark.parametrize(
    ("name", "value", "held"),
    [
        ("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef", True),
        ("DB_PASS", "tr0ub4dor&3", True),
        ("githubToken", "0123abcd4567", True),
        ("PLAIN", "ghp_0123456789abcdefABCDEF", True),
        ("PLAIN", "https://bob:hunter2222@example.org/", True),
        ("PLAIN", KEY, True),
        ("PLAIN", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", True),
        ("API_TOKEN", "/aB3xYz9Kd8LmQ2wErT5/uIoP7", True),
        ("API_KEY", "short", False),
        ("API_KEY", "12345678901", False),
        ("API_KEY_FILE", "/home/bob/.config/key.pem", False),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/etc/google/account.json", False),
        ("PASSWORD", "password", False),
        ("PASSWORD", "xxxxxxxxxxxx", False),
        ("PWD", "hunter22-hunter22", False),
        ("SSH_AUTH_SOCK", "agent-socket-77", False),
        ("AUTHOR", "Ada Lovelace", False),
        ("KEYBOARD", "qwerty-layout", False),
        ("COMPASS", "north-by-northwest", False),
        ("REPORT", "risk_assessment_results", False),
        ("LANG", "en_US.UTF-8", False),
        ("PLAIN", "https://git@example.org/a.git", False),
    ],
)
def test_what_holds_a_secret(name: str, value: str, *, held: bool) -> None:
    assert bool(secrets_of({name: value})) is held
    assert secrets_of({name: value}, ("OTHER",)) == {}


def test_nothing_of_a_secret_shows_in_the_masker_itself() -> None:
    assert repr(MASKER) == "<Masker of TOKEN>"


PIECES = some.sampled_from(
    [
        "abab1234", "ab", "abab", "1234", "12345678XY", "8XY", "\n", " ", "é", "***",
        base64.b64encode(b"abab1234").decode(), quote("12345678XY/z"), "12345678XY/z",
    ]
)  # fmt: skip
TWINS = Masker({"A": "abab1234", "B": "12345678XY/z", "C": "abab1234-and-more"})


@given(some.lists(PIECES, max_size=30), some.lists(some.integers(1, 12), min_size=1, max_size=12))
def test_however_a_stream_is_cut_it_says_the_same_as_the_whole(
    pieces: list[str], cuts: list[int]
) -> None:
    data = "".join(pieces).encode()
    stream, out, at, turn = TWINS.stream(), [], 0, 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        out.append(stream.feed(data[at : at + size]))
        assert b"abab1234" not in b"".join(out)
        assert stream.held < 64
        at, turn = at + size, turn + 1
    out.append(stream.end())
    assert b"".join(out) == TWINS.mask_bytes(data)
    assert TWINS.mask(data.decode()) == TWINS.mask_bytes(data).decode()


def test_a_stream_holds_back_only_what_may_be_a_secret() -> None:
    stream = Masker({"A": "zq81-spectrum"}).stream()
    assert stream.feed(b"an ordinary line\n") == b"an ordinary line\n"
    assert stream.feed(b"so: zq8") == b"so: "
    assert stream.feed(b"2 is none\n") == b"zq82 is none\n"
    assert stream.feed(b"zq81-spectru") == b""
    assert stream.end() == b"zq81-spectru"


# --- speed --------------------------------------------------------------------------------------

THREE = {
    "ANTHROPIC_API_KEY": "sk-ant-api03-nobodys-0123456789abcdefXYZ",
    "GITHUB_TOKEN": "ghp_Q7wX2mK9pL4vN8sT1yB5cD3fG6hJ0zRabcd4",
    "MODEL_KEY": "Zx9Qw/ErTy+UiOp8a=SdF7gHjKLq2Wm5Np8Rt1V",
}


def ordinary_output() -> list[bytes]:
    """What builds and agents print, as it comes out of a pipe: four megabytes."""
    lines = (
        "[%3d%%] Building CXX object src/module_7/CMakeFiles/core.dir/file_%d.cpp.o\n"
        "src/module_7/file_%d.cpp:12: warning: unused variable 'count' [-Wunused-variable]\n"
        '{"type":"assistant","message":{"id":"msg_013Zva2CMHLNnXjNJJKqJ2EF%d","content":[{"type":'
        '"tool_use","input":{"command":"cd /srv && pytest -q","description":"Run \\"it\\""}}]}}\n'
        "\x1b[32mPASS\x1b[0m tests/unit/test_%d.ts\n"
    )
    text = "".join(lines % ((number % 100,) + (number,) * 4) for number in range(12_000)).encode()
    return [text[at : at + (1 << 18)] for at in range(0, 4_000_000, 1 << 18)]


def test_ordinary_output_is_masked_no_slower_than_it_comes() -> None:
    pieces, masker = ordinary_output(), Masker(THREE)

    def carry() -> None:
        stream = masker.stream()
        for piece in pieces:
            stream.feed(piece)

    size = sum(map(len, pieces))
    assert size / shortest(carry, size / 100e6) > 40e6
