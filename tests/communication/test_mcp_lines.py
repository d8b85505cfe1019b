"""How requests arrive: one a line, bounded, and each with its answer."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from communication.mcp.lines import LineReader, Refusal, TooLong, decoded, identity_of, refusal_line
from tests.fuzzing import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def lines(tmp_path: Path) -> Callable[[bytes, int], list[bytes | TooLong]]:
    def read(raw: bytes, limit: int) -> list[bytes | TooLong]:
        path = tmp_path / "input"
        path.write_bytes(raw)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            source = LineReader(descriptor, limit)
            return list(iter(source.read, None))
        finally:
            os.close(descriptor)

    return read


def test_lines_come_one_by_one_and_the_last_needs_no_end(
    lines: Callable[[bytes, int], list[bytes | TooLong]],
) -> None:
    long = b"y" * 200_000
    assert lines(b"a\n\n \nb\r\n" + long + b"\nc", 300_000) == [b"a", b"b\r", long, b"c"]
    assert lines(b"", 10) == []


def test_a_line_that_is_too_long_costs_only_itself(
    lines: Callable[[bytes, int], list[bytes | TooLong]],
) -> None:
    whole = b'{"id":7,' + b"x" * 500_000 + b"the end"
    first, second = lines(whole + b"\nnext\n", 70_000)
    assert isinstance(first, TooLong)
    assert first.head == whole[:4096]
    assert first.tail == whole[-4096:]
    assert second == b"next"
    refused = decoded(first)
    assert isinstance(refused, Refusal)
    assert refused.identity == 7
    assert "say less" in refused.reason


DEEP = b"[" * 5000


@pytest.mark.parametrize(
    ("raw", "identity"),
    [
        (b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":' + DEEP, 4),
        (b'{"id": "a-1", "jsonrpc":"2.0","params":' + DEEP, "a-1"),
        (b'{"method":"tools/call","params":' + DEEP + b']},"jsonrpc":"2.0","id":-5}', -5),
        (b'{"method":"m","params":' + DEEP + b',"id":6,"jsonrpc":"2.0"}\r', 6),
        (b'{"jsonrpc":"2.0","id":4,"method":"m","params":{"id":9}}', 4),
        (b'{"jsonrpc":"2.0","method":"m","params":{"x":{"id":9}}}', None),
        (b'{"jsonrpc":"2.0","method":"m","params":{"text":"{\\"id\\":9}"}}', None),
        (b'{"id":"' + b"x" * 300 + b'"}', None),
        (b'{"id":' + b"9" * 5000 + b"}", None),
        (b"", None),
    ],
)
def test_the_request_that_is_refused_is_known_where_it_can_be(raw: bytes, identity: object) -> None:
    assert identity_of(raw, raw) == identity


def test_depth_is_refused_before_the_parser_enters_it() -> None:
    attack = b'{"jsonrpc":"2.0","id":4,"method":"m","params":' + b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(RecursionError):
        json.loads(attack + b"}")
    refused = decoded(attack + b"}")
    assert isinstance(refused, Refusal)
    assert (refused.identity, "deeper" in refused.reason) == (4, True)


def test_what_is_no_character_does_not_cost_the_request_its_answer() -> None:
    told = decoded(b'{"id":1,"a\\ud800":["\\udfff","\\ud83d\\ude00","\xff"]}')
    assert told == {"id": 1, "a?": ["?", "\N{GRINNING FACE}", "�"]}


@settings(max_examples=examples(40), deadline=None)
@given(st.binary(max_size=60) | st.text(st.characters(codec="utf-8")).map(str.encode))
def test_any_line_is_an_object_or_a_refusal_that_can_be_sent(raw: bytes) -> None:
    told = decoded(raw)
    if isinstance(told, Refusal):
        answer = json.loads(refusal_line(told))
        assert answer["error"]["code"] in (-32700, -32600)
    else:
        assert json.dumps(told, ensure_ascii=False).encode()
