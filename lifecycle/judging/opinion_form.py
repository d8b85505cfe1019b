"""The form of a reviewer's answer: found in what it printed, checked, and held against the diff.

Text and values alone. What a reviewer writes is untrusted: nothing in it counts that does not fit
the form and repeat the mark of its own review. Must not decide what follows from an answer.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lifecycle.machine.opinion import IN_DIFF, MISSING, OUTSIDE, SEVERITIES, Finding, Opinion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runtime.git.diff_parsing import FileChange

MOST_FINDINGS = 50
MOST_TEXT = 1000
"""Characters of a finding that are kept; of the summary twice as many."""
ANSWER_BYTES = 64 * 1024
"""Of what a reviewer printed last, where its answer is looked for."""
_CANDIDATES = 2000
_BRACE = re.compile(r"\{")


class _Finding(BaseModel):
    model_config = ConfigDict(strict=True)

    severity: Literal["note", "minor", "major", "critical"]
    text: str = Field(min_length=1)
    file: str = ""
    line: int | None = Field(default=None, ge=0)


class Answer(BaseModel):
    """What a reviewer is asked to print."""

    model_config = ConfigDict(strict=True)

    review: str
    verdict: Literal["approve", "findings"]
    findings: list[_Finding] = Field(default=[], max_length=1000)
    summary: str = ""


class Unusable(NamedTuple):
    """Why what a reviewer printed is no answer."""

    text: str


class CommitLines(NamedTuple):
    """Which lines of a commit a reader was shown, and how to look at the others."""

    shown: Mapping[str, frozenset[int] | None]
    """By changed file; None where its lines were too many to be shown."""
    texts: Mapping[str, str | None]
    """Files that findings name beside these, as they are in the commit; None is not there."""

    def place(self, file: str, line: int) -> str:
        """Tell where a finding points."""
        if not file:
            return IN_DIFF
        if file in self.shown:
            lines = self.shown[file]
            if lines is None or not line or line in lines:
                return IN_DIFF
        text = self.texts.get(file)
        if text is None or line > len(text.splitlines()):
            return MISSING
        return OUTSIDE


def answer_in(text: str, mark: str) -> Answer | Unusable:
    """Return the last answer in a text that repeats the mark; else what is wrong with it.

    What the reviewer runs can read the mark, too: an approval does not take findings back.
    """
    found: Answer | None = None
    objected = False
    wrong = "it printed no answer in the form that was asked for"
    for each in _objects(text):
        if each.get("review") != mark:
            continue
        try:
            found, wrong = Answer.model_validate(each), ""
        except ValidationError as problem:
            first = problem.errors()[0]
            where = ".".join(map(str, first["loc"]))
            found, wrong = None, f"its answer does not fit the form: {where}: {first['msg']}"
        objected |= found is not None and found.verdict == "findings"
    if found is not None and found.verdict == "approve" and objected:
        return Unusable("it named findings, and approved after that: only one answer counts")
    if found is None:
        return Unusable(wrong)
    if found.verdict == "findings" and not found.findings:
        return Unusable("it does not approve, and names no finding")
    return found


def _objects(text: str) -> Iterable[dict[str, object]]:
    """Return the outermost JSON objects in a text; cheap, whatever is printed."""
    decoder, at = json.JSONDecoder(), 0
    starts = [each.start() for each in _BRACE.finditer(text)][-_CANDIDATES:]
    for start in starts:
        if start < at:
            continue
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        yield value


def files_named(answer: Answer) -> tuple[str, ...]:
    """Return the files that its findings are about; no file has a NUL character in its name."""
    paths = (_path(each.file) for each in _kept(answer))
    return tuple(dict.fromkeys(path for path in paths if path and "\0" not in path))


def shown_lines(files: Iterable[FileChange]) -> dict[str, frozenset[int] | None]:
    """Return the numbers of the lines that a diff shows; of a removed file those it had."""
    shown: dict[str, frozenset[int] | None] = {}
    for file in files:
        gone = file.kind == "deleted"
        lines = [line for hunk in file.hunks for line in hunk.lines]
        numbers = frozenset(line.old if gone else line.new for line in lines)
        shown[file.path] = numbers if file.hunks or not file.lines else None
    return shown


def opinion_of(answer: Answer, by: str, head: str, lines: CommitLines) -> Opinion:
    """Return what an answer comes to; each finding is marked with where it points."""
    findings = tuple(
        Finding(
            severity=each.severity,
            text=each.text[:MOST_TEXT],
            file=(file := _path(each.file)),
            line=each.line or 0,
            place=lines.place(file, each.line or 0),
        )
        for each in _kept(answer)
    )
    return Opinion(
        by=by,
        head=head,
        approves=answer.verdict == "approve",
        findings=findings,
        summary=answer.summary[: 2 * MOST_TEXT],
    )


def _kept(answer: Answer) -> list[_Finding]:
    """Return its gravest findings."""
    gravest = sorted(answer.findings, key=lambda each: -SEVERITIES.index(each.severity))
    return gravest[:MOST_FINDINGS]


def _path(file: str) -> str:
    """Return a name as the diff has it."""
    return file.strip().removeprefix("./")[:MOST_TEXT]
