"""Comments that a person wrote between the lines of a diff, in an editor.

Pure. A line that begins with `>>` is a comment on the line of the diff above it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.review.diff_text import of_file
from orchestrator.review.marks import Comment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.review.work_diff import WorkDiff

SIGN = ">>"
HELP = (
    f"# Write a comment below the line it is about, each line beginning with {SIGN}\n"
    "# Save and close; then send the work back with the comments. All else here is only to read.\n"
)
_Place = tuple[str, int, str]


def _places(diff: WorkDiff) -> Iterator[tuple[str, _Place | None]]:
    """Return each line of the text with its file, number and side."""
    place: _Place | None = None
    for file in diff.files:
        told = iter([line for hunk in file.change.hunks for line in hunk.lines])
        inside = False
        for shown in of_file(file):
            if shown.startswith("@@ "):
                inside = True
                yield shown, None
                continue
            line = next(told, None) if inside else None
            if line is not None and (line.new or line.old):
                side = "new" if line.new else "old"
                place = (file.path, line.new or line.old, side)
            yield shown, place if line is not None else None


def as_text(diff: WorkDiff) -> str:
    """Return what is written into the file that the person edits."""
    return HELP + "\n".join([*(line for line, _ in _places(diff)), ""])


def read_back(diff: WorkDiff, text: str) -> tuple[Comment, ...]:
    """Return the comments in the text as it came back."""
    known = list(_places(diff))
    at, place = 0, None
    found: list[Comment] = []
    joins = False
    for line in text.splitlines():
        if line.startswith(SIGN):
            said = line.removeprefix(SIGN).strip()
            if joins and found:
                last = found.pop()
                said = f"{last.text} {said}".strip()
            if said and place is not None:
                file, number, side = place
                found.append(Comment(file=file, line=number, text=said, side=side))
                joins = True
            continue
        joins = False
        following = next((n for n in range(at, len(known)) if known[n][0] == line), None)
        if following is not None:
            at, place = following + 1, known[following][1] or place
    return tuple(found)
