"""A diff as text for terminals: in git's form, flagged files first, nothing hostile in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.terminal.text import columns, cut, one_line, paint, safe
from runtime.git.diff_parsing import EXECUTABLE, NO_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.review.work_diff import ShownFile, WorkDiff
    from runtime.git.diff_parsing import FileChange, Hunk, PatchLine

_COLOURS = {"+": "green", "-": "red", "\\": "dim"}
_BAR = 20
"""Columns of the longest bar of --stat."""
FILES = "{} file{}"


def heading(diff: WorkDiff) -> str:
    """Say in a line what is shown."""
    return (
        f"{diff.agent_id}: {count(len(diff.files))}, +{diff.added} -{diff.removed}, "
        f"{diff.head[:12]} against {diff.against}"
    )


def count(files: int) -> str:
    """Say how many files."""
    return FILES.format(files, "" if files == 1 else "s")


def stat(diff: WorkDiff, *, width: int = 0, colours: bool = False) -> Iterator[str]:
    """Return a line for each file, as `git diff --stat` has them, with why it is flagged."""
    shown = [_name(each.change) for each in diff.files]
    room = max((columns(name) for name in shown), default=0)
    if width:
        room = min(room, max(width - _BAR - 10, 20))
    most = max((each.change.lines for each in diff.files), default=0)
    for name, each in zip(shown, diff.files, strict=True):
        label = cut(name, room)
        start = f"{label}{' ' * (room - columns(label))} | "
        yield start + _amount(each, most, colours=colours)
        if each.flagged:
            yield paint(f"  flagged: {one_line(each.flagged)}", "yellow", wanted=colours)


def _amount(file: ShownFile, most: int, *, colours: bool) -> str:
    change = file.change
    if change.binary:
        return f"binary, {file.size} bytes"
    scale = min(1.0, _BAR / most) if most else 0.0
    plus = round(change.added * scale) or bool(change.added)
    minus = round(change.removed * scale) or bool(change.removed)
    bar = "".join(
        paint(sign * many, _COLOURS[sign], wanted=colours)
        for sign, many in (("+", plus), ("-", minus))
        if many
    )
    words = ", ".join(filter(None, (_moved(change), change.mode, file.made)))
    return f"{change.lines:>4} {bar}{f' ({words})' if words else ''}"


def _moved(change: FileChange) -> str:
    return change.kind if change.kind in ("added", "deleted", "renamed", "copied") else ""


def _name(change: FileChange) -> str:
    return one_line(f"{change.old_path} => {change.path}" if change.old_path else change.path)


def lines(diff: WorkDiff, *, colours: bool = False) -> Iterator[str]:
    """Return the whole diff, line by line."""
    for file in diff.files:
        yield from of_file(file, colours=colours)


def of_file(file: ShownFile, *, colours: bool = False) -> Iterator[str]:
    """Return the lines of one file."""
    change = file.change
    new, old = safe(change.path), safe(change.old_path or change.path)
    if file.flagged:
        yield paint(f"# flagged: {one_line(file.flagged)}", "yellow", wanted=colours)
    yield paint(f"diff --git a/{old} b/{new}", "bold", wanted=colours)
    for told in _modes(change, old, new):
        yield paint(told, "bold", wanted=colours)
    if change.binary:
        yield f"# binary, {file.size} bytes"
    if file.folded:
        yield paint(f"# left out: {one_line(file.folded)}", "yellow", wanted=colours)
    if change.hunks:
        yield paint(f"--- {_side(old, 'a', change.old_mode)}", "bold", wanted=colours)
        yield paint(f"+++ {_side(new, 'b', change.new_mode)}", "bold", wanted=colours)
    for hunk in change.hunks:
        yield from _hunk(hunk, colours=colours)


def _side(name: str, side: str, mode: str) -> str:
    return "/dev/null" if mode == NO_FILE else f"{side}/{name}"


def _modes(change: FileChange, old: str, new: str) -> Iterator[str]:
    if change.kind == "added":
        yield f"new file mode {change.new_mode}"
    elif change.kind == "deleted":
        yield f"deleted file mode {change.old_mode}"
    elif change.old_mode != change.new_mode:
        yield f"old mode {change.old_mode}"
        yield f"new mode {change.new_mode}"
    if change.kind in ("renamed", "copied"):
        yield f"rename from {old}"
        yield f"rename to {new}"
    if change.mode and (change.new_mode == EXECUTABLE or change.kind == "type changed"):
        yield f"# {change.mode}"


def _hunk(hunk: Hunk, *, colours: bool) -> Iterator[str]:
    old = sum(line.kind in (" ", "-") for line in hunk.lines)
    new = sum(line.kind in (" ", "+") for line in hunk.lines)
    place = f"@@ -{hunk.old_start},{old} +{hunk.new_start},{new} @@"
    if any(line.parts for line in hunk.lines):
        place = f"@@ -{hunk.old_start} +{hunk.new_start} @@"
    yield paint(place, "cyan", wanted=colours) + (f" {safe(hunk.heading)}" if hunk.heading else "")
    for line in hunk.lines:
        yield _line(line, colours=colours)


def _line(line: PatchLine, *, colours: bool) -> str:
    if line.parts:
        return "".join(_part(kind, text, colours=colours) for kind, text in line.parts)
    text = f"{line.kind}{safe(line.text, lines=True)}"
    colour = _COLOURS.get(line.kind)
    return paint(text, colour, wanted=colours) if colour else text


def _part(kind: str, text: str, *, colours: bool) -> str:
    shown = safe(text, lines=True)
    if kind == " " or (not shown):
        return shown
    if colours:
        return paint(shown, _COLOURS[kind], wanted=True)
    return f"[-{shown}-]" if kind == "-" else f"{{+{shown}+}}"
