"""What the examples tell other programs to type and to start is what there is."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.cli.main import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
TEXTS = (
    *sorted((EXAMPLES / "claude_code").rglob("*.md")),
    *sorted((EXAMPLES / "codex").rglob("*.md")),
    ROOT / "docs" / "how-to" / "drive-it-from-an-agent.md",
)
COMMAND = re.compile(r"^(loopwright [a-z][^\n#]*)|[!]?`(loopwright [a-z][^`\n]*)`", re.MULTILINE)
STARTS = re.compile(r"-- (loopwright mcp[^`]*)`")
NEEDS_OPERANDS = frozenset({"accept", "diff", "reject"})
"""Named without what they act on, where a text is about the commands themselves."""


def commands() -> Iterator[tuple[str, list[str]]]:
    for path in TEXTS:
        text = path.read_text("utf-8")
        found = [one or other for one, other in COMMAND.findall(text)] + STARTS.findall(text)
        assert found, path
        for line in found:
            yield str(path.relative_to(ROOT)), shlex.split(line.replace("COMMIT", "1234567"))[1:]


@pytest.mark.parametrize(("page", "words"), list(commands()), ids=str)
def test_each_command_of_an_example_can_be_typed(page: str, words: list[str]) -> None:
    del page
    name, *args = words
    assert name in COMMANDS
    if args or name not in NEEDS_OPERANDS:
        import_module(f"orchestrator.cli.commands.{COMMANDS[name]}").parser(name).parse_args(args)


def test_programs_are_told_to_start_the_tools_of_a_person_and_no_decisions() -> None:
    claude = json.loads((EXAMPLES / "claude_code" / ".mcp.json").read_text("utf-8"))
    codex = tomllib.loads((EXAMPLES / "codex" / "config.toml").read_text("utf-8"))
    for server in (claude["mcpServers"]["loopwright"], codex["mcp_servers"]["loopwright"]):
        assert server == {"command": "loopwright", "args": ["mcp", "--operator"]}


@pytest.mark.parametrize("path", TEXTS[:-1], ids=lambda path: path.name)
def test_what_a_program_reads_of_an_example_stands_at_its_head(path: Path) -> None:
    head = re.match(r"---\n((?:[a-z-]+: \S[^\n]*\n)+)---\n", path.read_text("utf-8"))
    assert head is not None
    keys = dict(line.split(": ", 1) for line in head[1].splitlines())
    assert len(keys["description"]) <= 1024
    assert path.name != "SKILL.md" or keys["name"] == path.parent.name
