"""Checklists in Markdown: `PRD.md`, `fix_plan.md`, `tasks.md` of spec-kit and the like. Pure.

A task is a box, or a heading that begins with an id (`### US-001: ...`) and has boxes below it,
which are then what must hold. Boxes below a box are what must hold for that one, unless they have
ids of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

from orchestrator.tasks.found import Edit, FoundTask, FoundTasks, TickEdits, numbered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from markdown_it.token import Token

FORM = "checklist"
_BOX = re.compile(r"\[(?P<mark>[ xX])\](?:\s+|$)")
_LINE = re.compile(r"^[\s>]*(?:[-*+]|\d{1,9}[.)])\s+\[(?P<mark>[ xX])\]")
_ID = re.compile(
    r"""
    (?:\*\*|`|\[)*
    (?: (?P<bare> T\d{3,}[a-z]? ) (?![\w-]) [\]*`:.)]*
      | (?P<number> \d+(?:\.\d+)+ | \d+(?=\.\s) ) [.:)]? (?=[\s*])
      | (?P<named> [A-Za-z][A-Za-z_]*[-_\ ]?\d+(?:[.-]\d+)* )
        (?: [\]*`]*\s?[:)\u2014\u2013] | [\]*`]+(?=\s) | \s-(?=\s) )
    )
    [*`]* \s*
    """,
    re.VERBOSE,
)
"""T001 as it stands, 1. or 1.2, or a word with a number that a colon or the like ends (US-001:).

`UTF-8 support` begins with no id."""
_MARKER = re.compile(r"\[(?P<word>P|US\d+|Story \d+)\]\s*")
_AFTER = re.compile(
    r"\b(?:depends? on|blocked by|after|dependenc(?:y|ies))\b:?[*_]*\s+"
    r"(?P<ids>[\w.#-]+(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+)[\w.#-]+)*)",
    re.IGNORECASE,
)
_AND = re.compile(r"\s*,\s*(?:and\s+)?|\s+and\s+", re.IGNORECASE)
_KIND = re.compile(r"[A-Za-z_]+[-_ ]?(?=\d)")
_GROUP = re.compile(
    r"\W*(?:phase|part|section|sprint|milestone|epic|week|day|stage|chapter|priority|version)\b",
    re.IGNORECASE,
)
_LABEL = re.compile(r"\W*(?:acceptance criteria|tasks|steps|criteria)\W*", re.IGNORECASE)


@dataclass(slots=True)
class _Box:
    """One box, with all that stands below it."""

    line: int
    ticked: bool
    text: str
    more: list[str] = field(default_factory=list)
    """Lines below it that are no boxes."""
    inner: list[_Box] = field(default_factory=list)

    def all(self) -> Iterator[_Box]:
        yield self
        for each in self.inner:
            yield from each.all()


@dataclass(slots=True)
class _Entry:
    """What is one task: a box, or a heading with its boxes."""

    line: int
    title: str
    id: str
    boxes: list[_Box]
    """All that are ticked with it."""
    said: list[str]
    acceptance: list[str]
    markers: tuple[str, ...] = ()
    section: str = ""
    after: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether its own box is ticked; of a heading, whether all are."""
        own = self.boxes[:1] if self.boxes[0].line == self.line else self.boxes
        return all(box.ticked for box in own)


def fits(name: str, text: str) -> bool:
    """Tell whether a file is Markdown with a box."""
    return name.lower().endswith((".md", ".markdown", ".mdx")) and bool(_boxes(text))


def read(text: str, where: str) -> FoundTasks:
    """Return the tasks, in the order of the file."""
    entries = _entries(text)
    keys = _keys(entries)
    order = _order(entries, keys) if any("P" in each.markers for each in entries) else {}
    known = frozenset(keys)
    tasks = tuple(
        FoundTask(
            key=key,
            has_id=bool(each.id),
            title=each.title,
            line=each.line + 1,
            description="\n".join(each.said).strip(),
            acceptance=tuple(each.acceptance),
            depends_on=tuple(_waits(each.after, known)) or order.get(key, ()),
            tags=tuple(word for word in each.markers if word != "P"),
            left_out="done" if each.is_done else "",
        )
        for each, key in zip(entries, keys, strict=True)
    )
    problems = [
        f"{where}:{task.line}: {task.key} waits for {name}, which is not in the list"
        for task in tasks
        for name in task.depends_on
        if name not in known
    ]
    if not tasks:
        problems.append(f"{where}: there is no box: write each task as `- [ ] what is to be done`")
    return FoundTasks(form=FORM, tasks=tasks, problems=tuple(problems))


def tick(text: str, key: str, when: str) -> TickEdits:
    """Return what ticks the boxes of a task, and of the box around it once all in there are."""
    del when
    entries = _entries(text)
    for entry, its_key in zip(entries, _keys(entries), strict=True):
        if its_key == key:
            wanted = {box.line for box in entry.boxes if not box.ticked}
            for top in _boxes(text):
                for group in top.all():
                    inner = [box for each in group.inner for box in each.all()]
                    if inner and not group.ticked and entry.boxes[0] in inner:
                        left = [box for box in inner if not box.ticked and box.line not in wanted]
                        if not left:
                            wanted.add(group.line)
            return TickEdits(line=entry.line + 1, edits=tuple(_edits(text, wanted)))
    return TickEdits()


def _edits(text: str, lines: Iterable[int]) -> Iterator[Edit]:
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    for number in sorted(lines):
        found = _LINE.match(text[starts[number] : starts[number + 1]])
        if found is not None:
            place = starts[number] + found.start("mark")
            yield Edit(place, place + 1, "x")


# --- which boxes there are ----------------------------------------------------------------------


def _tokens(text: str) -> list[Token]:
    # What it takes for the end of a line is counted as such by nobody else.
    return MarkdownIt("commonmark").parse(text.removeprefix("\ufeff"))


def _boxes(text: str) -> list[_Box]:
    return [each for each in _parts(text) if isinstance(each, _Box)]


@dataclass(slots=True)
class _Heading:
    line: int
    level: int
    text: str


def _parts(text: str) -> list[_Box | _Heading | str]:
    """Return headings, boxes that are in no other, and the text between them, as they stand."""
    lines = text.split("\n")
    parts: list[_Box | _Heading | str] = []
    around: list[tuple[int, _Box]] = []
    """The boxes that the token is in, with their levels."""
    tokens = _tokens(text)
    for at, token in enumerate(tokens):
        if token.type == "list_item_close":
            while around and around[-1][0] >= token.level:
                around.pop()
        if token.type != "inline" or token.map is None:
            if token.type in ("fence", "code_block") and token.map is not None:
                said = "\n".join(lines[token.map[0] : token.map[1]])
                _below(around, parts, said)
            continue
        line, before = token.map[0], tokens[at - 1]
        if before.type == "heading_open":
            parts.append(_Heading(line, int(before.tag[1:]), token.content))
            continue
        begins = at > 1 and tokens[at - 2].type == "list_item_open"
        found = _BOX.match(token.content) if begins else None
        if found is None or not _LINE.match(lines[line]):
            _below(around, parts, ("- " if begins else "") + token.content)
            continue
        title, *more = token.content[found.end() :].split("\n")
        box = _Box(line, found["mark"] != " ", title.strip(), more)
        if around:
            around[-1][1].inner.append(box)
        else:
            parts.append(box)
        around.append((tokens[at - 2].level, box))
    return parts


def _below(
    around: Sequence[tuple[int, _Box]], parts: list[_Box | _Heading | str], said: str
) -> None:
    if around:
        around[-1][1].more.append(said)
    else:
        parts.append(said)


# --- which of them are tasks --------------------------------------------------------------------


def _entries(text: str) -> list[_Entry]:
    found: list[tuple[_Entry | None, list[_Box], str]] = []
    section, story, level = "", None, 0
    for part in _parts(text):
        if isinstance(part, _Heading):
            if story is not None and part.level > level:
                continue
            story, level, section = _story(part), part.level, part.text
            found.append((story, [], section))
        elif isinstance(part, str):
            if story is not None and (said := _said(part)):
                story.said.append(said)
        else:
            if not found:
                found.append((None, [], section))
            found[-1][1].append(part)
    return [each for entry, boxes, name in found for each in _of_section(entry, boxes, name)]


def _story(heading: _Heading) -> _Entry | None:
    """Return the task that a heading with an id is; what only groups tasks is none."""
    found = _ID.match(heading.text)
    if found is None or _GROUP.match(heading.text):
        return None
    return _Entry(heading.line, _plain(heading.text[found.end() :]), _id(found), [], [], [])


def _of_section(story: _Entry | None, boxes: Sequence[_Box], section: str) -> Iterator[_Entry]:
    if story is None or not story.title or any(_ID.match(each.text) for each in boxes):
        for box in boxes:
            yield from _of_box(box, section)
        return
    story.boxes = [each for box in boxes for each in box.all()]
    story.acceptance = [_plain(each.text) for each in story.boxes]
    story.after = _after("\n".join(story.said))
    if story.boxes:
        yield story


def _of_box(box: _Box, section: str) -> Iterator[_Entry]:
    """Yield the task that a box is, or those inside it where they have ids of their own."""
    if any(_ID.match(each.text) for each in box.inner):
        for each in box.inner:
            yield from _of_box(each, section)
        return
    found, rest = _ID.match(box.text), box.text
    if found is not None:
        rest = rest[found.end() :]
    markers = []
    while (marker := _MARKER.match(rest)) is not None:
        markers.append(marker["word"])
        rest = rest[marker.end() :]
    if not rest.strip():
        return
    yield _Entry(
        box.line,
        _plain(rest),
        _id(found) if found is not None else "",
        list(box.all()),
        list(box.more),
        [_plain(each.text) for inner in box.inner for each in inner.all()],
        tuple(markers),
        section,
        _after("\n".join((rest, *box.more))),
    )


def _id(found: re.Match[str]) -> str:
    return re.sub(r"\s+", "-", found["bare"] or found["number"] or found["named"])


def _after(text: str) -> tuple[str, ...]:
    """Return the ids that a text says it waits for."""
    listed = [name for each in _AFTER.finditer(text) for name in _AND.split(each["ids"])]
    return tuple(dict.fromkeys(name.strip("#.") for name in listed))


def _waits(after: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """Yield those that are ids, known or like the known ones: `after 3 tries` names none."""
    kinds = {kind[0] for name in known if (kind := _KIND.match(name))}
    for name in after:
        kind = _KIND.match(name)
        if name in known or (kind is not None and kind[0] in kinds):
            yield name


def _said(text: str) -> str:
    return "" if _LABEL.fullmatch(text.strip()) else text.strip()


def _plain(text: str) -> str:
    """Return a title without the marks of strong words, which every prompt would repeat."""
    return re.sub(r"\*\*(.+?)\*\*", r"\1", text).strip()


def _keys(entries: Sequence[_Entry]) -> list[str]:
    texts = iter(numbered(each.title for each in entries if not each.id))
    return [each.id or next(texts) for each in entries]


def _order(entries: Sequence[_Entry], keys: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return what each task waits for where `[P]` says which may run beside each other.

    One without it waits for all before it, and so do the tasks of the next section.
    """
    waits: dict[str, tuple[str, ...]] = {}
    before, beside, section = tuple[str, ...](), tuple[str, ...](), ""
    for entry, key in zip(entries, keys, strict=True):
        if entry.section != section:
            section, before, beside = entry.section, beside or before, ()
        if "P" in entry.markers:
            waits[key] = before
            beside = (*beside, key)
        else:
            waits[key] = beside or before
            before, beside = (key,), ()
    return waits
