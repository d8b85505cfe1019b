"""Secrets in texts and streams: found in every form, at every cut, and nothing else is touched."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
import time
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as some

from lifecycle.mask_values import masked
from runtime.logs.files import clean as stripped
from runtime.masking.masker import Masker, secrets_of
from runtime.masking.search import TAIL
from templates.fence import clean

if TYPE_CHECKING:
    from collections.abc import Callable

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
    "quote all, byte for byte": "".join(f"%{byte:02X}" for byte in PLANTED.encode()),
    "go": json.dumps(PLANTED)[1:-1].replace("'", r"\u0027"),
    "shell": shlex.quote(PLANTED),
    "shell escapes": "ghp_Ab3/dE+5fG7\\ hI9\\'jK\\\"x",
    "html": html.escape(PLANTED),
    "repr": repr(PLANTED),
    "hex": PLANTED.encode().hex(),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_each_form_of_a_secret_is_masked(text: str) -> None:
    for told in (
        MASKER.mask(f"before {text} after"),
        MASKER.mask_bytes(f"before {text} after".encode()).decode(),
    ):
        assert "***TOKEN***" in told
        assert "fG7" not in told
        assert PLANTED.encode().hex()[8:16] not in told
        assert told.startswith("before ")
        assert told.endswith(" after")


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


def test_letters_beyond_ascii_and_quoted_ones_of_the_secret_itself_are_known() -> None:
    secret = "pä55%41wörd"  # noqa: S105  # nobody's
    masker = Masker({"KEY": secret})
    for text in (
        secret, json.dumps(secret), json.dumps(json.dumps(secret)), quote(secret),
        quote_plus(secret, safe="%"), f"\x1b[1m{secret[:3]}\x1b[0m{secret[3:]}",
    ):  # fmt: skip
        assert "5" not in masker.mask(text).replace("\x1b[1m", "")


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


# --- colours and single escaped characters inside -------------------------------------------------

SECRET = "Zx9Qw/ErTy+UiOp8a=SdF7gHjK"  # noqa: S105  # nobody's
VEILED = Masker({"API_KEY": SECRET})
MARK = "***API_KEY***"


def woven(inside: str) -> str:
    return inside.join((SECRET[:5], SECRET[5:11], SECRET[11])) + SECRET[12:]


INSIDE = {
    "colour": "\x1b[1;31m",
    "colour ended": "\x1b[0m\x1b[K",
}


@pytest.mark.parametrize("inside", INSIDE.values(), ids=INSIDE)
def test_what_stands_inside_a_secret_hides_it_from_nobody(inside: str) -> None:
    text = f"it says '{woven(inside)}', so"
    assert SECRET not in text  # the attack: a search for it does not find it,
    bare = re.sub(re.escape(inside), "", text)
    assert SECRET in bare  # and a reader who takes the rest out sees it
    assert VEILED.mask(text) == f"it says '{MARK}', so"
    assert VEILED.mask_bytes(text.encode()) == f"it says '{MARK}', so".encode()
    for line in (json.dumps({"a": text}), json.dumps(json.dumps({"a": text}))):
        told = VEILED.mask_bytes(line.encode()).decode()
        assert told.count(MARK) == 1
        assert not any(part in told for part in (SECRET[:5], SECRET[5:11], SECRET[12:]))
        assert VEILED.mask(line) == told
        assert MARK in str(json.loads(told))


@pytest.mark.parametrize("strip", [clean, stripped])
def test_a_coloured_secret_stands_whole_in_a_text_that_is_cleaned_after_it_was_masked(
    strip: Callable[[str], str],
) -> None:
    """The attack: only what is found before is masked, and cleaning brings it about."""
    text = woven("\x1b[32m")
    assert text.replace(SECRET, MARK) == text
    assert SECRET in strip(text)
    assert strip(masked({"excerpt": text}, VEILED)["excerpt"]) == MARK


# --- escaped in part ----------------------------------------------------------------------------


def some_of(pattern: Callable[[str], str], rng: Random) -> str:
    return "".join(pattern(char) if rng.random() < 0.4 else char for char in SECRET)


WAYS: dict[str, Callable[[str], str]] = {
    "json": lambda char: f"\\u{ord(char):04x}",
    "json upper": lambda char: f"\\u{ord(char):04X}",
    "json in json": lambda char: f"\\\\u{ord(char):04x}",
    "url": lambda char: f"%{ord(char):02X}",
    "url lower": lambda char: f"%{ord(char):02x}",
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_whichever_characters_are_escaped_it_is_found(way: Callable[[str], str]) -> None:
    rng = Random(7)  # noqa: S311  # the same each time
    for _ in range(60):
        text = some_of(way, rng)
        assert VEILED.mask(f"a {text} b") == f"a {MARK} b"
        assert VEILED.mask_bytes(f"a {text} b".encode()).decode() == f"a {MARK} b"


def test_the_usual_escapes_of_some_characters_are_known() -> None:
    for text in (
        SECRET.replace("+", "\\u002b").replace("=", "\\u003D").replace("/", "\\u002F"),
        quote(SECRET, safe="+="),
        SECRET.replace("/", "%2f"),
        SECRET.replace("/", "\\/").replace("+", "\\u002b"),
        woven("\\u001b[1m").replace("=", "\\u003d"),
    ):
        assert VEILED.mask(f"<{text}>") == f"<{MARK}>"


# --- streams ------------------------------------------------------------------------------------

STREAMED = {
    **{name: woven(inside) for name, inside in INSIDE.items()},
    "in json": json.dumps(woven("\x1b[31m"))[1:-1],
    "escaped": "".join(f"\\u{ord(char):04x}" for char in SECRET),
    "quoted": "".join(f"%{ord(char):02X}" for char in SECRET),
}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("form", STREAMED.values(), ids=STREAMED)
def test_a_stream_finds_it_escaped_however_it_is_cut(form: str, size: int) -> None:
    text = f"so: {form} and on\n" * 3
    data = text.encode()
    stream = VEILED.stream()
    told = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size))
    assert (told + stream.end()).decode() == f"so: {MARK} and on\n" * 3


def test_a_stream_holds_back_no_coloured_line_and_no_flood_of_nothing() -> None:
    stream = VEILED.stream()
    for line in (
        b"\x1b[32mok\x1b[0m 100%\n",
        b'{"a":"\\u001b[1mb"}\n',
    ):
        assert stream.feed(line) == line
    stream.feed(SECRET[:5].encode())
    for _ in range(40):
        stream.feed(b"\x1b[0m" * 250)
    assert stream.held <= 2 * TAIL


def test_ordinary_texts_with_colours_and_escapes_come_back_as_they_were() -> None:
    for text in (
        "\x1b[32mok\x1b[0m a line \u200b \\u001b[0m 100% of %41 \\u0041 C:\\bin",
        "a half \ud83d of a pair, and bytes that are no UTF-8: \udcff",
    ):
        assert VEILED.mask(text) is text
        data = text.encode(errors="replace")
        assert VEILED.mask_bytes(data) is data


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
    """By processor time, which a busy neighbour does not lengthen."""
    pieces, masker = ordinary_output(), Masker(THREE)

    def carry() -> float:
        stream, began = masker.stream(), time.thread_time()
        for piece in pieces:
            stream.feed(piece)
        return time.thread_time() - began

    assert sum(map(len, pieces)) / min(carry() for _ in range(3)) > 40e6
