"""Which failures of gates are the same failure once more."""

from __future__ import annotations

import random

import pytest

from lifecycle.judging.failure_digest import failure_of
from lifecycle.machine.states import Gate

RED = Gate(command="make test", ok=False, code=2)
PYTEST = """\
============ test session starts ============
platform linux -- Python 3.11.2, pytest-9.0.2, pluggy-1.6.0 -- PID {pid}
Using --randomly-seed={pid}
tests/test_a.py ..F..F.. [ 50%]
tests/test_b.py {dots} [100%]
E       assert <Calc object at 0x7f{pid:x}> == 4
E       {folder}/test_add0/calc.db: locked, request 3f2b9c1e-0000-4000-8000-{pid:012d}
FAILED tests/test_a.py::test_add - assert 3 == 4
FAILED tests/test_a.py::test_sub - KeyError: 'x'
commit {sha}, Thu Nov {day} 13:{day}:08 2026
============ 2 failed, 6 passed in {took}s ============
"""


def told(seed: int, text: str = PYTEST) -> str:
    rng = random.Random(seed)  # noqa: S311  # for tests
    return text.format(
        pid=rng.randrange(1000, 99999),
        dots="".join(rng.sample("..F.", 4)),
        folder=f"/tmp/pytest-of-me/pytest-{seed}",
        sha=f"{rng.getrandbits(160):040x}",
        day=10 + seed,
        took=f"{rng.random() * 9:.2f}",
    )


def digest(text: str, gate: Gate = RED) -> str:
    return failure_of([(gate, text)]).digest


def test_times_numbers_addresses_paths_and_the_order_of_lines_make_no_difference() -> None:
    first = told(1)
    for seed in (2, 3, 4):
        lines = told(seed).splitlines()
        random.Random(seed).shuffle(lines)  # noqa: S311  # as above
        assert digest("\n".join(lines)) == digest(first)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("FAILED tests/test_a.py::test_sub - KeyError: 'x'\n", ""),
        ("test_sub", "test_mul"),
        ("KeyError", "ValueError"),
        ("FAILED", "ERROR"),
        ("test_add -", "test_add_1 -"),
    ],
)
def test_another_test_another_error_or_one_less_is_another_failure(before: str, after: str) -> None:
    text = told(1)
    assert before in text
    assert digest(text.replace(before, after, 1)) != digest(text)


def test_fewer_findings_of_the_same_kind_are_progress() -> None:
    three = "".join(f"a.py:{line}:5: E501 line too long (10{line} > 100)\n" for line in (7, 8, 9))
    assert digest(three) == digest(three.replace("a.py:7", "a.py:17"))
    assert digest(three) != digest(three.split("\n", 1)[1])


def test_another_command_or_another_end_is_another_failure() -> None:
    assert digest("no") != digest("no", Gate(command="make lint", ok=False, code=2))
    assert digest("no") != digest("no", Gate(command="make test", ok=False, code=None))


def test_the_lines_that_tell_most_are_shown() -> None:
    lines = failure_of([(RED, told(1))]).lines
    assert "FAILED tests/test_a.py::test_add - assert 3 == 4" in lines
    assert "platform" not in lines
    assert failure_of([(RED, "no way\n" + "x" * 9000)]).lines.endswith("...")
    assert failure_of([]) == ("", "")
