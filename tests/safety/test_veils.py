"""A secret is found with colours inside, and escaped in part."""

from __future__ import annotations

import json
import re
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from lifecycle.masking import masked
from runtime import maskveils
from runtime.masking import Masker
from runtime.output import clean as stripped
from templates.fence import clean

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "Zx9Qw/ErTy+UiOp8a=SdF7gHjK"  # noqa: S105  # nobody's
MASKER = Masker({"API_KEY": SECRET})
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
    assert SECRET not in text  # the attack: whoever looks for it does not find it,
    bare = re.sub(re.escape(inside), "", text)
    assert SECRET in bare  # and whoever takes the rest out reads it
    assert MASKER.mask(text) == f"it says '{MARK}', so"
    assert MASKER.mask_bytes(text.encode()) == f"it says '{MARK}', so".encode()
    for line in (json.dumps({"a": text}), json.dumps(json.dumps({"a": text}))):
        told = MASKER.mask_bytes(line.encode()).decode()
        assert told.count(MARK) == 1
        assert not any(part in told for part in (SECRET[:5], SECRET[5:11], SECRET[12:]))
        assert MASKER.mask(line) == told
        assert MARK in str(json.loads(told))


@pytest.mark.parametrize("strip", [clean, stripped])
def test_a_coloured_secret_stands_whole_in_a_text_that_is_cleaned_after_it_was_masked(
    strip: Callable[[str], str],
) -> None:
    """The attack: only what is found before is masked, and cleaning brings it about."""
    text = woven("\x1b[32m")
    assert text.replace(SECRET, MARK) == text
    assert SECRET in strip(text)
    assert strip(masked({"excerpt": text}, MASKER)["excerpt"]) == MARK


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
        assert MASKER.mask(f"a {text} b") == f"a {MARK} b"
        assert MASKER.mask_bytes(f"a {text} b".encode()).decode() == f"a {MARK} b"


def test_the_usual_escapes_of_some_characters_are_known() -> None:
    for text in (
        SECRET.replace("+", "\\u002b").replace("=", "\\u003D").replace("/", "\\u002F"),
        quote(SECRET, safe="+="),
        SECRET.replace("/", "%2f"),
        SECRET.replace("/", "\\/").replace("+", "\\u002b"),
        woven("\\u001b[1m").replace("=", "\\u003d"),
    ):
        assert MASKER.mask(f"<{text}>") == f"<{MARK}>"


# --- streams ------------------------------------------------------------------------------------

STREAMED = {
    **{name: woven(inside) for name, inside in INSIDE.items()},
    "in json": json.dumps(woven("\x1b[31m"))[1:-1],
    "escaped": "".join(f"\\u{ord(char):04x}" for char in SECRET),
    "quoted": "".join(f"%{ord(char):02X}" for char in SECRET),
}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("form", STREAMED.values(), ids=STREAMED)
def test_a_stream_finds_it_however_it_is_cut(form: str, size: int) -> None:
    text = f"so: {form} and on\n" * 3
    data = text.encode()
    stream = MASKER.stream()
    told = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size))
    assert (told + stream.end()).decode() == f"so: {MARK} and on\n" * 3


def test_a_stream_holds_back_no_coloured_line_and_no_flood_of_nothing() -> None:
    stream = MASKER.stream()
    for line in (
        b"\x1b[32mok\x1b[0m 100%\n",
        b'{"a":"\\u001b[1mb"}\n',
    ):
        assert stream.feed(line) == line
    stream.feed(SECRET[:5].encode())
    for _ in range(40):
        stream.feed(b"\x1b[0m" * 250)
    assert stream.held <= 2 * maskveils.TAIL


def test_ordinary_texts_with_colours_and_escapes_come_back_as_they_were() -> None:
    for text in (
        "\x1b[32mok\x1b[0m a line \u200b \\u001b[0m 100% of %41 \\u0041 C:\\bin",
        "a half \ud83d of a pair, and bytes that are no UTF-8: \udcff",
    ):
        assert MASKER.mask(text) is text
        data = text.encode(errors="replace")
        assert MASKER.mask_bytes(data) is data
