"""Decides what a summary shows and what it leaves out, so that it stays small and says so.

Owns the limits per level and the order in which facts are dropped: the last failure and what a
person said stay longest, history and lists of files go first. Pure: plain values in, plain values
out; it must not render or keep state.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from templates.fence import cap, clean, noted

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """How much of each kind one level shows: texts in bytes, lists in entries."""

    description: int
    words_of_people: int
    failure: int
    words: int
    failures: int
    asides: int
    attempts: int
    attempt_words: int
    files: int
    commits: int


LEVELS = (
    SizeLimits(4000, 3000, 3000, 1500, 6, 12, 10, 240, 40, 10),
    SizeLimits(2500, 2500, 2000, 700, 5, 8, 8, 160, 20, 6),
    SizeLimits(1500, 2000, 1200, 400, 4, 5, 5, 120, 10, 4),
    SizeLimits(800, 1200, 700, 200, 3, 3, 3, 100, 5, 2),
    SizeLimits(400, 500, 300, 100, 2, 2, 1, 80, 3, 1),
)
"""From large to small; a page that fits at one level is not trimmed further."""

GOOD_ENDS = frozenset(
    {"pr_created", "pr_merged", "reviewed", "unblocked", "answered", "task_complete"}
)
_MAX_SHOWN_ENDS = 8


def trim(values: Values, level: int) -> Values:
    """Shrink the values of a snapshot to a level; `left_out` names all that is missing.

    Adds `latest` (the ledger's entry of the attempt that just ended), `earlier` (others, newest
    first), `alike` (the same, but of several in a row that were alike only the newest, with their
    `count`, the number of the `first`, and in `seconds` what they took together), `older` (how the
    rest ended, counted), `streak` (how many attempts in a row failed in the same way) and
    `left_out`.
    """
    cutter = _Cutter(LEVELS[level], values["omitted"])
    limits = cutter.limits
    task, outcome, ci = values["task"], values["last_outcome"], values["ci"]
    communications = values["communications"]
    trimmed = {
        **values,
        "task": {
            **task,
            "description": cutter.text(task["description"], limits.description, "the description"),
            "acceptance": cutter.items(task["acceptance"], limits.asides, "acceptance points"),
            "verify": cutter.items(task["verify"], limits.asides, "verify commands"),
        },
        "last_outcome": outcome
        and {
            "kind": outcome["kind"],
            "text": cutter.text(outcome["text"], limits.failure, "the reason"),
            "evidence": cutter.text(outcome["evidence"], limits.failure, "evidence", head=0.33),
        },
        "gates": cutter.gates(values["gates"]),
        "ci": ci
        and {
            **ci,
            "failed": cutter.excerpts(ci["failed"], "CI output", "failed checks"),
        },
        "merges": [cutter.merge(each) for each in values["merges"]],
        "remarks": cutter.excerpts(values["remarks"], "review remarks", "review remarks"),
        "answer": values["answer"]
        and {
            **values["answer"],
            "question": cutter.text(values["answer"]["question"], limits.words, "a question"),
            "answer": cutter.text(
                values["answer"]["answer"], limits.words_of_people, "a person's answer"
            ),
        },
        "guidance": cutter.items(
            values["guidance"], limits.asides, "pieces of guidance", newest=True
        ),
        "communications": communications and cutter.mail(communications),
        "block_reason": cutter.text(values["block_reason"], limits.words, "why it was blocked"),
        "last_words": cutter.text(values["last_words"], limits.words, "last words", head=0),
    }
    for name, limit, noun in (
        ("blockers", limits.asides, "blockers"),
        ("notes", limits.asides, "notes"),
        ("between", limits.asides, "commits in between"),
        ("flagged_files", limits.asides, "flagged files"),
        ("changed_files", limits.files, "changed files"),
        ("dirty_files", limits.files, "uncommitted files"),
        ("recent_commits", limits.commits, "commits"),
        ("dependencies_done", limits.asides, "finished dependencies"),
        ("dependencies_pending", limits.asides, "pending dependencies"),
    ):
        trimmed[name] = cutter.items(values[name], limit, noun)
    trimmed["guidance"] = [
        {**entry, "text": cutter.text(entry["text"], limits.words_of_people, "guidance")}
        for entry in trimmed["guidance"]
    ]
    if values["saved_work"]:
        saved = values["saved_work"]
        files = cutter.items(saved["files"], limits.files, "saved files")
        trimmed["saved_work"] = {**saved, "files": files}
    trimmed.update(_history(values, cutter))
    trimmed["left_out"] = cutter.named()
    return trimmed


def _history(values: Values, cutter: _Cutter) -> Values:
    ledger = values["ledger"]
    limits = cutter.limits
    latest = ledger[-1] if ledger and ledger[-1]["attempt"] == values["attempt"] else None
    rest = ledger[:-1] if latest else ledger
    shown = rest[-limits.attempts :]
    older: list[tuple[str, int]] = []
    if values["folded_attempts"] or len(rest) > len(shown):
        ends: Counter[str] = Counter(values["folded_attempts"])
        ends.update(entry["outcome"] for entry in rest[: len(rest) - len(shown)])
        cutter.missing["older attempts"] += ends.total()
        older = ends.most_common(_MAX_SHOWN_ENDS)
    if latest:
        latest = {
            **latest,
            "summary": cutter.text(latest["summary"], limits.words, "the last attempt's words"),
            "error": cutter.text(latest["error"], limits.failure, "the last error"),
        }
    earlier = [{**entry, "chars": limits.attempt_words} for entry in reversed(shown)]
    return {
        "latest": latest,
        "earlier": earlier,
        "alike": _alike(earlier),
        "older": older,
        "streak": _streak(ledger, values.get("folded_alike", 0)),
    }


def _alike(entries: list[Values]) -> list[Values]:
    """Group successive attempts that say the same."""
    groups: list[Values] = []
    known = None
    for entry in entries:
        said, number = _said(entry), entry["attempt"]
        if said == known and number == groups[-1]["first"] - 1:
            group = groups[-1]
            group["count"] += 1
            group["first"] = number
            known_both = group["seconds"] is not None and entry["seconds"] is not None
            group["seconds"] = group["seconds"] + entry["seconds"] if known_both else None
        else:
            groups.append({**entry, "count": 1, "first": number})
        known = said
    return groups


_said = itemgetter("outcome", "commits", "files_changed", "summary", "error")


def _streak(ledger: list[Values], folded_alike: int) -> int:
    if not ledger or ledger[-1]["outcome"] in GOOD_ENDS:
        return 0
    wanted = (ledger[-1]["outcome"], ledger[-1]["error"])
    length = 0
    for entry in reversed(ledger):
        if (entry["outcome"], entry["error"]) != wanted:
            return length
        length += 1
    return length + folded_alike


class _Cutter:
    """Shortens texts and lists, and records what was left out."""

    def __init__(self, limits: SizeLimits, missing: dict[str, int]) -> None:
        self.limits = limits
        self.missing = defaultdict(int, missing)
        self._bytes: dict[str, int] = defaultdict(int)

    def text(self, value: str | None, limit: int, noun: str, *, head: float = 0.33) -> str:
        if not value:
            return ""
        whole = clean(value).strip("\n")
        kept = cap(whole, limit, head=head)
        if missing := noted(kept):
            self._bytes[noun] += missing
        return kept

    def items(self, values: list[Any], limit: int, noun: str, *, newest: bool = False) -> list[Any]:
        over = len(values) - limit
        if over <= 0:
            return list(values)
        self.missing[noun] += over
        return list(values[-limit:] if newest else values[:limit])

    def merge(self, value: Values) -> Values:
        limits = self.limits
        return {
            **value,
            "conflicts": self.items(value["conflicts"], limits.files, "files in conflict"),
            "ours": self.items(value["ours"], limits.commits, "commits of yours"),
            "theirs": self.items(value["theirs"], limits.commits, "commits of the other side"),
        }

    def excerpts(self, values: list[Values], noun: str, counted: str) -> list[Values]:
        return [
            {**value, "excerpt": self.text(value["excerpt"], self.limits.failure, noun)}
            for value in self.items(values, self.limits.failures, counted)
        ]

    def gates(self, gates: list[Values]) -> list[Values]:
        """Failures first, the new ones before those that were there already."""
        red = sorted(
            (gate for gate in gates if not gate["ok"]), key=lambda g: bool(g["failed_before"])
        )
        green = [gate for gate in gates if gate["ok"]]
        return [
            *self.excerpts(red, "gate output", "failed gates"),
            *self.items(green, self.limits.asides, "passed gates"),
        ]

    def mail(self, own: Values) -> Values:
        limit = self.limits.words
        entry: Values = {
            name: self.text(own[name], limit, "mailbox text")
            for name in ("mission", "working_on", "done", "next")
        }
        for name in ("requests", "deliveries"):
            entry[name] = [
                {**message, "text": self.text(message["text"], limit, "mailbox text")}
                for message in self.items(own[name], self.limits.asides, name, newest=True)
            ]
        return entry

    def named(self) -> list[str]:
        counts = [f"{count} {noun}" for noun, count in self.missing.items() if count > 0]
        return counts + [f"{_size(size)} of {noun}" for noun, size in self._bytes.items()]


def _size(count: int) -> str:
    return f"{count} bytes" if count < 1024 else f"{count / 1024:.1f} KiB"  # noqa: PLR2004  # 1 KiB
