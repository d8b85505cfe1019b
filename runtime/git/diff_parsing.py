"""Parses what git prints about the difference between two commits: its files, hunks and lines.

Pure. Names come from the list that git ends by NUL, never from a patch: a file may be called
anything.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from runtime.git.porcelain import LINK_MODE, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LONGEST_LINE = 2000
"""Characters of a line that are kept."""
NO_FILE = "000000"
SYMLINK = "120000"
EXECUTABLE = "100755"
_SECTION = "diff --git "
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)", re.DOTALL)
_KINDS = {"A": "added", "D": "deleted", "M": "modified", "R": "renamed", "C": "copied",
          "T": "type changed"}  # fmt: skip


class PatchLine(NamedTuple):
    """One line: kind ` `, `+` or `-`; in a diff by words also `~`, which has changed parts."""

    kind: str
    text: str
    old: int = 0
    """Its number before; 0 where it was not there."""
    new: int = 0
    parts: tuple[tuple[str, str], ...] = ()
    """Of a diff by words: kind and text of each part of the line."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that follow each other, with some around what changed."""

    old_start: int
    new_start: int
    heading: str
    """What git found to be around it, as the name of a function."""
    lines: tuple[PatchLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One file that differs between two commits."""

    path: str
    """As text for people; `name` is what the file system has."""
    old_path: str = ""
    """Where it was, if it was renamed or copied."""
    kind: str = "modified"
    """added, modified, deleted, renamed, copied or type changed."""
    name: str = ""
    old_name: str = ""
    old_mode: str = NO_FILE
    new_mode: str = NO_FILE
    old_blob: str = ""
    new_blob: str = ""
    added: int = 0
    removed: int = 0
    binary: bool = False
    hunks: tuple[Hunk, ...] = ()

    @property
    def lines(self) -> int:
        """How many lines changed."""
        return self.added + self.removed

    @property
    def mode(self) -> str:
        """Say in words what changed of its kind or permissions; nothing if neither did."""
        old, new = self.old_mode, self.new_mode
        special = {SYMLINK: "a symbolic link", LINK_MODE.decode(): "a nested repository"}
        if NO_FILE in (old, new):
            there = new if old == NO_FILE else old
            return special.get(there, "executable" if there == EXECUTABLE else "")
        if old == new:
            return special.get(new, "")
        if new in special or old in special:
            return f"was {special.get(old, 'a file')}, is {special.get(new, 'a file')}"
        return "made executable" if new == EXECUTABLE else "no longer executable"


def parse_files(listing: bytes) -> tuple[FileChange, ...]:
    """Read the output of `git diff-tree -r -z -M --raw --numstat --no-abbrev` of two commits."""
    fields = iter(listing.split(b"\0")[:-1])
    files: list[FileChange] = []
    counts: list[tuple[bytes, bytes]] = []
    for field in fields:
        if field.startswith(b":"):
            files.append(_file(field.decode(), fields))
            continue
        added, removed, path = field.split(b"\t", 2)
        counts.append((added, removed))
        if not path:  # of a rename both names follow
            next(fields), next(fields)
    return tuple(
        replace(
            file,
            binary=added == b"-",
            added=0 if added == b"-" else int(added),
            removed=0 if removed == b"-" else int(removed),
        )
        for file, (added, removed) in zip(files, counts, strict=True)
    )


def _file(told: str, fields: Iterator[bytes]) -> FileChange:
    old_mode, new_mode, old_blob, new_blob, kind = told[1:].split(" ")
    first = next(fields)
    old, new = (first, next(fields)) if kind[0] in "RC" else (b"", first)
    return FileChange(
        path=shown(new),
        old_path=shown(old),
        name=os.fsdecode(new),
        old_name=os.fsdecode(old),
        kind=_KINDS.get(kind[0], "modified"),
        old_mode=old_mode,
        new_mode=new_mode,
        old_blob=old_blob,
        new_blob=new_blob,
    )


def with_hunks(
    files: Sequence[FileChange], patch: bytes, *, words: bool = False
) -> tuple[FileChange, ...]:
    """Return the files with their hunks, from the output of `git diff-tree --raw -p`.

    Found by their contents: of files that changed alike the hunks are alike.
    """
    head, _, text = shown(patch).partition("\n\n")
    sections = _sections(text)
    hunks: dict[tuple[str, ...], tuple[Hunk, ...]] = {}
    for line in head.splitlines():
        if line.startswith(":"):
            *key, kind = line.partition("\t")[0][1:].split(" ")
            # What becomes another kind of file is told as deleted and added.
            parts = [next(sections, []) for _ in range(2 if kind == "T" else 1)]
            hunks[tuple(key)] = tuple(hunk for part in parts for hunk in _hunks(part, words=words))
    return tuple(
        replace(
            file,
            hunks=hunks.get((file.old_mode, file.new_mode, file.old_blob, file.new_blob), ()),
        )
        for file in files
    )


def _sections(patch: str) -> Iterator[list[str]]:
    section: list[str] | None = None
    for line in patch.removesuffix("\n").split("\n"):
        if line.startswith(_SECTION):
            if section is not None:
                yield section
            section = []
        elif section is not None:
            section.append(line)
    if section is not None:
        yield section


def _hunks(section: Sequence[str], *, words: bool) -> Iterator[Hunk]:
    head: re.Match[str] | None = None
    body: list[str] = []
    for line in section:
        if line.startswith("@@ "):
            if head is not None:
                yield _hunk(head, body, words=words)
            head, body = _HUNK.fullmatch(line), []
        elif head is not None:
            body.append(line)
    if head is not None:
        yield _hunk(head, body, words=words)


def _hunk(head: re.Match[str], body: Sequence[str], *, words: bool) -> Hunk:
    old, new = int(head[1]), int(head[2])
    lines = _by_words(body) if words else _numbered(body, old, new)
    return Hunk(old, new, head[3], tuple(lines))


def _numbered(body: Sequence[str], old: int, new: int) -> Iterator[PatchLine]:
    for line in body:
        kind, text = line[:1], line[1:]
        if len(text) > LONGEST_LINE:
            text = shortened(text)
        if kind == "+":
            yield PatchLine(kind, text, 0, new)
            new += 1
        elif kind == "-":
            yield PatchLine(kind, text, old, 0)
            old += 1
        elif kind == " ":
            yield PatchLine(kind, text, old, new)
            old, new = old + 1, new + 1
        elif kind == "\\":
            yield PatchLine(kind, text.strip())


def _by_words(body: Sequence[str]) -> Iterator[PatchLine]:
    """Read `--word-diff=porcelain`: a part per line, and `~` where a line of the file ends."""
    parts: list[tuple[str, str]] = []
    for line in body:
        if line[:1] != "~":
            if line[:1] in ("+", "-", " "):
                parts.append((line[0], shortened(line[1:])))
            continue
        yield _of_parts(parts)
        parts = []
    if parts:
        yield _of_parts(parts)


def _of_parts(parts: Sequence[tuple[str, str]]) -> PatchLine:
    kind = "~" if any(kind != " " for kind, _ in parts) else " "
    text = "".join(text for kind, text in parts if kind != "-")
    return PatchLine(kind, text, parts=tuple(parts))


def shortened(text: str) -> str:
    """Return a line, or its beginning and how much more it is."""
    if len(text) <= LONGEST_LINE:
        return text
    return f"{text[:LONGEST_LINE]} [{len(text) - LONGEST_LINE} more characters]"


def pairs(hunk: Hunk) -> Iterator[tuple[PatchLine | None, PatchLine | None]]:
    """Return the lines side by side: what was there, and what stands in its place."""
    removed: list[PatchLine] = []
    added: list[PatchLine] = []
    for line in (*hunk.lines, None):
        if line is not None and line.kind in ("+", "-"):
            (added if line.kind == "+" else removed).append(line)
            continue
        if line is not None and line.kind == "\\":
            continue
        for at in range(max(len(removed), len(added))):
            yield (
                removed[at] if at < len(removed) else None,
                added[at] if at < len(added) else None,
            )
        removed, added = [], []
        if line is not None:
            yield line, line
