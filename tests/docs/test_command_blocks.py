"""Commands that the pages show are ones that a shell and our own parsers take."""

from __future__ import annotations

import re
import shlex
import subprocess
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.cli.main import COMMANDS
from tests.docs.page_runner import blocks_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.terminal.options import CommandLineParser

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN = [page for page in PAGES if blocks_of(page)]
ENDS_A_COMMAND = re.compile(r"[;&|()<>\n]+")
ASSIGNED = re.compile(r"[A-Z_]+=")
OUR_PROGRAM = "loopwright"

each_page = pytest.mark.parametrize("page", SHOWN, ids=lambda page: str(page.relative_to(ROOT)))


@each_page
def test_a_shell_can_read_each_block(page: Path) -> None:
    script = "\n".join(block.code for block in blocks_of(page))
    read = subprocess.run(
        ("bash", "-n"), input=script, capture_output=True, text=True, timeout=20, check=False
    )
    assert (read.returncode, read.stderr) == (0, "")


@each_page
def test_our_parsers_take_each_command(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = [
        (block.line, shlex.join(words), capsys.readouterr().err)
        for block in blocks_of(page)
        for words in commands_in(block.code)
        if not taken(words)
    ]
    assert refused == []


def commands_in(code: str) -> Iterator[list[str]]:
    """Yield the words of each call of our program, without what belongs to the shell."""
    without_texts = re.sub(r"<<'?(\w+)'?.*?\n.*?^\1$", "", code, flags=re.DOTALL | re.MULTILINE)
    for line in without_texts.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if not ENDS_A_COMMAND.fullmatch(word):
                words.append(word)
                continue
            while words and ASSIGNED.match(words[0]):
                del words[0]
            if words[:1] == [OUR_PROGRAM]:
                yield words[1:]
            words = []


def taken(words: list[str]) -> bool:
    """Tell whether the parser of the command takes these words."""
    if not words or words[0].startswith("-"):
        return True
    name, *args = words
    if name not in COMMANDS:
        return False
    parser: CommandLineParser = import_module(f"orchestrator.cli.commands.{COMMANDS[name]}").parser(
        name
    )
    try:
        parser.parse_args(args)
    except SystemExit as ended:
        return ended.code == 0
    return True


def test_what_stands_around_a_command_is_the_shells() -> None:
    code = "cd x && loopwright ps --json | jq . > y  # all\nA=1 loopwright add 'a; b'\n"
    code += "uv tool install loopwright\n"
    assert list(commands_in(code)) == [["ps", "--json"], ["add", "a; b"]]
    assert taken(["ps", "--json"])
    assert not taken(["ps", "--jsn"])
    assert not taken(["psss"])
