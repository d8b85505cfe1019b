"""`diff` reads as git's does, flags first, on terminals and off them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.loopkit import BIN, DONE
from tests.orchestrator.ptykit import Terminal

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

HOSTILE = "printf 'a\\033[31mred\\342\\200\\256\\nb c d\\n' > a.txt"


@pytest.fixture
def work(world: World) -> World:
    """Return a repository with completed work that has hostile text in it."""
    steps = [
        {"run": ["sh", "-c", f"{HOSTILE}; mkdir tests; echo x > tests/test_a.py"]},
        {"run": ["sh", "-c", "echo Hello you > README.md"]},
        {"commit": "work"},
        DONE,
    ]
    world.call("run", "x", "--command", world.script("a", steps), code=None)
    return world


def test_a_program_reads_text_without_colours_or_control_characters(work: World) -> None:
    text = work.call("diff", "T001").stdout
    assert text.index("# flagged: it is a test") < text.index("diff --git a/README.md b/README.md")
    assert "@@ -1,1 +1,1 @@\n-Hello\n+Hello you\n" in text
    assert "+a\\x1b[31mred\\u202e\n" in text
    assert "\x1b" not in text
    assert "tests/test_a.py |    1 + (added)" in work.call("diff", "T001", "--stat").stdout
    assert "Hello {+you+}" in work.call("diff", "T001", "--word", "--file", "README.md").stdout
    form = work.json("diff", "T001")
    assert [each["path"] for each in form["files"]] == ["tests/test_a.py", "README.md", "a.txt"]
    assert "has no attempt 9" in work.call("diff", "T001", "--since", "9", code=2).stderr


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_gets_colours_and_the_pager_of_the_user(work: World, columns: int) -> None:
    with Terminal(work.repo, "diff", "T001", columns=columns, GIT_PAGER="sed s/^/PAGED:/") as shown:
        text = shown.ends(0)
    assert "PAGED:\x1b[32m+Hello you\x1b[0m" in shown.raw
    assert "PAGED:diff --git" in text
    with Terminal(work.repo, "diff", "T001", "--stat", columns=columns, NO_COLOR="1") as shown:
        assert max(map(len, shown.ends(0).splitlines())) <= columns
    assert "\x1b" not in shown.raw


def test_a_pager_that_only_the_repository_names_is_not_started(work: World) -> None:
    work.git("config", "core.pager", "sed s/^/THEIRS:/")
    env = ("-u", "GIT_PAGER", "PAGER=sed s/^/MINE:/", str(BIN / "loopwright"))
    with Terminal(work.repo, "diff", "T001", "--stat", before=("env", *env)) as shown:
        text = shown.ends(0)
    assert "MINE:README.md" in text
    assert "THEIRS:" not in text
