"""Runs the command blocks of a page as they stand, one after the other, in one shell.

A comment above a block says what is special about it:

    <!-- ends with 3 -->          its last command ends with this exit code
    <!-- needs: docker -->        it is not run here, only checked for syntax and options
    <!-- one of these -->         its lines are alternatives: checked, not run

A `text` block right below shows what the commands print: each of its lines has to be in their
output, in this order; `...` stands for any text.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FENCE = re.compile(
    r"^(?:<!-- (?P<mark>.*?) -->\n)?```sh\n(?P<code>.*?)^```\n"
    r"(?:\n*```text\n(?P<shown>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
ENDS = re.compile(r"ends with (\d+)")
BEGUN = "::begun at line"


class Block(NamedTuple):
    """Commands of a page, and what it says of them."""

    line: int
    code: str
    run: bool
    ends: int
    shown: tuple[str, ...]


def blocks_of(page: Path) -> list[Block]:
    """Return the command blocks of a page."""
    text = page.read_text("utf-8")
    return [_block(text, found) for found in FENCE.finditer(text)]


def _block(text: str, found: re.Match[str]) -> Block:
    mark = found["mark"] or ""
    ends = ENDS.fullmatch(mark)
    return Block(
        line=text.count("\n", 0, found.start("code")),
        code=found["code"],
        run=not mark.startswith(("needs: ", "one of these")),
        ends=int(ends[1]) if ends else 0,
        shown=tuple((found["shown"] or "").splitlines()),
    )


def run_page(page: Path, *, folder: Path, env: Mapping[str, str], timeout: float) -> str:
    """Run the blocks of a page, check how they end and what they print; returns the output."""
    blocks = [block for block in blocks_of(page) if block.run]
    done = subprocess.run(
        ("bash", "-u", "-c", "".join(map(_guarded, blocks))),
        stdin=subprocess.DEVNULL,
        cwd=folder,
        env=dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{page.name} ended with {done.returncode}:\n{done.stdout}"
    printed = re.split(rf"^{BEGUN} \d+\n", done.stdout, flags=re.MULTILINE)[1:]
    for block, output in zip(blocks, printed, strict=True):
        _check_shown(f"{page.name}:{block.line}", block.shown, output)
    return done.stdout


def _guarded(block: Block) -> str:
    """Return a block that ends the shell where it does not end as the page says."""
    begin = f"echo '{BEGUN} {block.line}'\n"
    if not block.ends:
        return f"{begin}set -e\n{block.code}\n"
    wrong = f'echo "line {block.line}: ended with $code, not {block.ends}"; exit 1'
    return f"{begin}set +e\n{block.code}\ncode=$?; [ $code = {block.ends} ] || {{ {wrong}; }}\n"


def _check_shown(where: str, shown: Sequence[str], output: str) -> None:
    rest = output
    for line in filter(str.strip, shown):
        pattern = r"\s+".join(".*".join(map(re.escape, word.split("..."))) for word in line.split())
        found = re.search(pattern, rest)
        assert found, f"{where} shows {line!r}, but this is printed:\n{output}"
        rest = rest[found.end() :]
