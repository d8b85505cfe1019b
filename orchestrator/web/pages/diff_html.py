"""The diff of one file as rows of a table, unified or side by side, made for speed.

Every text is escaped here, as no template sees it. Colours of the language come from Pygments as
classes, for as many characters as there is time for; what changed within a line is marked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from itertools import chain
from time import thread_time
from typing import TYPE_CHECKING

from orchestrator.terminal.text import safe
from templates.renderer import Html

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pygments.lexer import Lexer
    from pygments.token import _TokenType

    from orchestrator.review.work_diff import FileForm, HunkForm, LineForm

COLOURED = 40_000
"""Characters of one page that are coloured: Pygments reads about a million in a second."""
LONGEST = 2_000
"""Characters of a line that are shown."""
_ALIKE = 0.3
"""The share of a line that must be the same for its difference to be marked."""
_MINUS = "\N{MINUS SIGN}"

Token = tuple[str, str]
"""The class of a piece of a line, and its text."""


class TooSlowError(Exception):
    """A text takes longer to be coloured than there is time."""


@dataclass(slots=True)
class ColourTime:
    """The time that is left for colours: what an agent wrote may be made to take very long."""

    left: float = 0.25
    """Seconds of the processor, for one page."""

    def tokens(self, lexer: Lexer, text: str) -> Iterator[tuple[_TokenType, str]]:
        """Yield the tokens of a text; TooSlowError once the time is over."""
        begun = thread_time()
        try:
            for token in lexer.get_tokens(text):
                if thread_time() - begun > self.left:
                    raise TooSlowError
                yield token
        finally:
            self.left -= thread_time() - begun


@dataclass(slots=True)
class DiffWriter:
    """Writes the files of one page."""

    href: str = ""
    """Begins the address that asks for a comment's form; without it none can be written."""
    coloured: int = COLOURED
    """Characters that may still be coloured."""
    time: ColourTime = field(default_factory=ColourTime)
    below: dict[tuple[str, str, int], str] = field(default_factory=dict)
    """What stands below a line, by file, side (old, new) and number; HTML."""

    def table(self, file: FileForm, number: int, *, split: bool) -> Html:
        """Return the table of a file's lines; `number` is the file's among those of the page."""
        rows = self._split if split else self._unified
        lexer = self._lexer(file)
        parts = [rows(file, hunk, number, lexer) for hunk in file["hunks"]]
        kind = "side" if split else "uni"
        cols = (
            '<col class="ln"><col><col class="ln"><col>'
            if split
            else '<col class="ln o"><col class="ln"><col class="sg"><col>'
        )
        body = "".join(chain.from_iterable(parts))
        return Html(
            f'<table class="{kind}"><colgroup>{cols}</colgroup><tbody>{body}</tbody></table>'
        )

    def _lexer(self, file: FileForm) -> Lexer | None:
        size = sum(len(line["text"]) for hunk in file["hunks"] for line in hunk["lines"])
        if size > self.coloured or self.time.left <= 0:
            return None
        lexer = lexer_of(file["path"].rpartition("/")[2])
        if lexer is not None:
            self.coloured -= size
        return lexer

    def _unified(
        self, file: FileForm, hunk: HunkForm, number: int, lexer: Lexer | None
    ) -> Iterator[str]:
        yield _head(hunk, '<td class="ln o"></td><td class="ln"></td><td class="sg"></td><td>')
        lines = hunk["lines"]
        for line, text in zip(lines, _texts(lines, lexer, self.time), strict=True):
            kind, old, new = line["kind"], line["old"], line["new"]
            side, at = ("old", old) if kind == "-" else ("new", new)
            link = self._link(number, side, at)
            if kind == "-":
                row = (
                    f'<tr class="de"><td class="ln o">{link}</td><td class="ln"></td>'
                    f'<td class="sg">{_MINUS}</td><td>{text}</td></tr>'
                )
            elif kind == "+":
                row = (
                    f'<tr class="ad"><td class="ln o"></td><td class="ln">{link}</td>'
                    f'<td class="sg">+</td><td>{text}</td></tr>'
                )
            else:
                row = (
                    f'<tr><td class="ln o">{old or ""}</td><td class="ln">{link}</td>'
                    f'<td class="sg"></td><td>{text}</td></tr>'
                )
            yield row
            yield self._remark(file, side, at)

    def _split(
        self, file: FileForm, hunk: HunkForm, number: int, lexer: Lexer | None
    ) -> Iterator[str]:
        yield _head(hunk, '<td class="ln"></td><td colspan="3">')
        lines = hunk["lines"]
        told = list(zip(lines, _texts(lines, lexer, self.time), strict=True))
        for left, right in _sides(told):
            cells = list[str]()
            below = ""
            for each, side, cls in ((left, "old", "de"), (right, "new", "ad")):
                if each is None:
                    cells.append('<td class="ln"></td><td class="no"></td>')
                    continue
                line, text = each
                at = line[side]  # type: ignore[literal-required]  # old or new
                own = line["kind"] == "-" if side == "old" else line["kind"] != "-"
                link = self._link(number, side, at) if own else at or ""
                kind = cls if line["kind"] in "+-" else "eq"
                cells.append(f'<td class="ln">{link}</td><td class="{kind}">{text}</td>')
                below += self._remark(file, side, at) if own else ""
            yield f"<tr>{''.join(cells)}</tr>{below}"

    def _link(self, number: int, side: str, at: int | None) -> str:
        if not at:
            return ""
        if not self.href:
            return str(at)
        name = f"{number}{side[0]}{at}"
        return f'<a href="{self.href}{name}#c{name}" id="l{name}">{at}</a>'

    def _remark(self, file: FileForm, side: str, at: int | None) -> str:
        told = self.below.get((file["path"], side, at or 0)) if self.below else None
        return f'<tr class="cm"><td colspan="4">{told}</td></tr>' if told else ""


def _head(hunk: HunkForm, cells: str) -> str:
    lines = hunk["lines"]
    old = sum(each["kind"] != "+" for each in lines)
    new = sum(each["kind"] != "-" for each in lines)
    place = f"@@ {_MINUS}{hunk['old_start']},{old} +{hunk['new_start']},{new} @@"
    heading = f" {escape(safe(hunk['heading']))}" if hunk["heading"] else ""
    return f'<tr class="hk">{cells}{place}{heading}</td></tr>'


Told = tuple["LineForm", str]


def _sides(told: Sequence[Told]) -> Iterator[tuple[Told | None, Told | None]]:
    """Yield what stands side by side: a run of removed lines beside the added ones after it."""
    gone, came = list[Told](), list[Told]()

    def both() -> Iterator[tuple[Told | None, Told | None]]:
        for at in range(max(len(gone), len(came))):
            yield (
                gone[at] if at < len(gone) else None,
                came[at] if at < len(came) else None,
            )
        gone.clear()
        came.clear()

    for each in told:
        kind = each[0]["kind"]
        if kind == "-":
            if came:
                yield from both()
            gone.append(each)
        elif kind == "+":
            came.append(each)
        else:
            yield from both()
            yield each, each
    yield from both()


def _texts(lines: Sequence[LineForm], lexer: Lexer | None, time: ColourTime) -> list[str]:
    """Return the text of each line as HTML, coloured and with its difference marked."""
    plain = [safe(each["text"][:LONGEST], lines=True).replace("\n", " ") for each in lines]
    marks = _marks(lines, plain)
    if lexer is None:
        return [
            _joined([("", text)], mark) if mark else escape(text)
            for text, mark in zip(plain, marks, strict=True)
        ]
    tokens: list[list[Token]] = [[]] * len(lines)
    for side in ("-", "+"):
        own = [at for at, each in enumerate(lines) if (each["kind"] == "-") == (side == "-")]
        for at, found in zip(own, _tokens([plain[at] for at in own], lexer, time), strict=True):
            tokens[at] = found
    return [_joined(each, mark) for each, mark in zip(tokens, marks, strict=True)]


def _tokens(lines: Sequence[str], lexer: Lexer, time: ColourTime) -> list[list[Token]]:
    try:
        return _coloured(lines, time.tokens(lexer, "\n".join(lines)))
    except TooSlowError:
        return [[("", line)] for line in lines]


def _coloured(lines: Sequence[str], told: Iterable[tuple[_TokenType, str]]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    for kind, text in told:
        cls = _class(kind)
        first, *others = text.split("\n")
        if first:
            found[-1].append((cls, first))
        found += [[(cls, other)] if other else [] for other in others]
    # A lexer ends its text with a new line, and may read a line break of its own.
    if len(found) < len(lines) or [
        "".join(part for _, part in each) for each in found[: len(lines)]
    ] != list(lines):
        return [[("", line)] for line in lines]
    return found[: len(lines)]


@lru_cache(maxsize=512)
def _class(kind: _TokenType) -> str:
    told = str(kind).split(".")[1:]
    match told:
        case ["Comment", *_]:
            return "c"
        case ["Keyword", *_] | ["Operator", "Word", *_]:
            return "k"
        case ["Literal", "String", *_]:
            return "s"
        case _:
            return ""


@lru_cache(maxsize=256)
def lexer_of(name: str) -> Lexer | None:
    """Return what reads files of this name; None where nobody does."""
    from pygments.lexers import get_lexer_for_filename  # noqa: PLC0415  # heavy
    from pygments.util import ClassNotFound  # noqa: PLC0415  # as above

    try:
        lexer: Lexer = get_lexer_for_filename(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return None if lexer.name in {"Text only", "Diff"} else lexer


def _marks(lines: Sequence[LineForm], plain: Sequence[str]) -> list[tuple[int, int, str] | None]:
    """Return where each line differs from the one that it replaces, or that replaces it."""
    marks: list[tuple[int, int, str] | None] = [None] * len(lines)
    at = 0
    while at < len(lines):
        if lines[at]["kind"] != "-":
            at += 1
            continue
        gone = at
        while at < len(lines) and lines[at]["kind"] == "-":
            at += 1
        came = at
        while at < len(lines) and lines[at]["kind"] == "+":
            at += 1
        for step in range(min(came - gone, at - came)):
            old, new = plain[gone + step], plain[came + step]
            begin, end = _differing(old, new)
            if begin + end >= _ALIKE * max(len(old), len(new), 1):
                marks[gone + step] = (begin, len(old) - end, "del")
                marks[came + step] = (begin, len(new) - end, "ins")
    return marks


def _differing(old: str, new: str) -> tuple[int, int]:
    """Return how much is the same at the beginning and at the end, in whole words."""
    short = min(len(old), len(new))
    begin = 0
    while begin < short and old[begin] == new[begin]:
        begin += 1
    end = 0
    while end < short - begin and old[-1 - end] == new[-1 - end]:
        end += 1
    while begin and (_in_word(old, begin) or _in_word(new, begin)):
        begin -= 1
    while end and (_in_word(old, len(old) - end) or _in_word(new, len(new) - end)):
        end -= 1
    return begin, end


def _in_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum()


def _joined(tokens: Iterable[Token], mark: tuple[int, int, str] | None) -> str:
    """Return the pieces of a line as HTML, with the marked part within its tag."""
    if mark is None or mark[0] >= mark[1]:
        return "".join(_piece(cls, text) for cls, text in tokens)
    begin, end, tag = mark
    before, within, after = list[str](), list[str](), list[str]()
    at = 0
    for cls, text in tokens:
        stop = at + len(text)
        for low, high, room in ((0, begin, before), (begin, end, within), (end, stop, after)):
            piece = text[max(low - at, 0) : max(high - at, 0)]
            if piece:
                room.append(_piece(cls, piece))
        at = stop
    return f"{''.join(before)}<{tag}>{''.join(within)}</{tag}>{''.join(after)}"


def _piece(cls: str, text: str) -> str:
    return f'<span class="{cls}">{escape(text)}</span>' if cls else escape(text)
