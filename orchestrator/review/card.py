"""What a reviewer reads above a diff, as lines for a terminal of any width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.review.opinion import opinion_lines
from orchestrator.terminal.text import columns, instant, one_line, paint, safe, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.review.evidence import EvidenceForm, JudgedGateForm
    from orchestrator.review.merge_result import MergeForm
    from orchestrator.review.queue import WaitingForm

NEEDS = {
    "answer": "needs your answer",
    "review": "waits for your review",
    "conflict": "could not be merged",
    "approve": "waits for your approval",
    "unblock": "is stuck",
    "given_up": "was given up",
}
_MARGIN = 13
"""Columns of the names of what follows."""
_EXCERPT = 8
"""Lines of what a failed command printed."""


def card(  # noqa: PLR0913  # all but the first three by name
    waits: WaitingForm,
    shown: EvidenceForm,
    merge: MergeForm | None,
    *,
    place: str,
    present: float,
    width: int = 0,
    colours: bool = False,
) -> Iterator[str]:
    """Return the lines."""
    name = waits["title"] or waits["task"]
    yield paint(one_line(f"{place} {waits['task_id']}: {name}", width), "bold", wanted=colours)
    yield paint(one_line(f"{NEEDS[waits['needs']]}"), "yellow", wanted=colours)
    facts = [*_standing(waits, shown, present), *_proof(shown), *_consequence(shown, merge)]
    for label, text in facts:
        yield from _told(label, text, width)


def _standing(waits: WaitingForm, shown: EvidenceForm, present: float) -> Iterator[tuple[str, str]]:
    since = instant(waits["since"], present)
    made = f"attempt {waits['attempt']}" if waits["attempt"] else "no attempt yet"
    yield "agent", f"{waits['agent_id']}, {made}, since {since}"
    if waits["needs"] in ("review", "conflict"):
        at = f" at {shown['head'][:12]}" if shown["head"] else ""
        yield "branch", f"{shown['branch']}{at}, into {shown['into'] or 'no branch'}"
    if waits["asked"] and waits["needs"] not in ("review", "conflict"):
        yield "asks" if waits["needs"] == "answer" else "why", waits["asked"]
    if waits["why_not_again"]:
        yield "try again", f"not as it is: {waits['why_not_again']}"
    if waits["holds_up"]:
        yield "holds up", ", ".join(waits["holds_up"])
    if shown["words"] and not waits["asked"].endswith(shown["words"]):
        yield "it says", f'"{shown["words"]}" (its own words, unchecked)'
    for each in shown["acceptance"]:
        yield "to be met", each


def _proof(shown: EvidenceForm) -> Iterator[tuple[str, str]]:
    for gate in shown["gates"]:
        yield "gate", _gate(gate)
        lines = gate["excerpt"].strip().splitlines()[-_EXCERPT:]
        yield from (("", line) for line in lines)
    if not shown["gates"] and shown["needs"] in ("review", "conflict"):
        yield "gates", "none ran: no verify command judged this"
    if shown["canary"] and not any(shown["canary"] in note for note in shown["notes"]):
        yield "canary", shown["canary"]
    for note in shown["notes"]:
        yield "note", note
    if shown["opinion"] is not None:
        first, *findings = opinion_lines(shown["opinion"])
        yield "review", first
        yield from (("finding", line) for line in findings)
    for each in shown["flagged"]:
        yield "flagged", f"{each['path']}: {each['reason']}"


def _gate(gate: JudgedGateForm) -> str:
    before = {True: "", False: ", failed before the work", None: ""}[gate["before"]]
    how = "passed" if gate["ok"] else f"FAILED: {gate['end']}"
    return f"{how}{before}: `{gate['command']}`"


def _consequence(shown: EvidenceForm, merge: MergeForm | None) -> Iterator[tuple[str, str]]:
    if shown["refused"] is not None:
        yield "refused", shown["refused"]["text"]
    for each in shown["comes_along"]:
        yield "comes along", f"{each['agent_id']} ({each['state']})"
    if merge is None:
        return
    if merge["would"] == "conflict":
        for found in merge["conflicts"]:
            places = [f"{each['first']}-{each['last']}" for each in found["places"]]
            where = f", lines {', '.join(places)} of the merged file" if places else ""
            yield "conflict", f"{found['path']}{where}"
        return
    if merge["would"] == "merge" and shown["comes_along"]:
        others = ", ".join(each["agent_id"] for each in shown["comes_along"])
        yield "accept", f"only with {others}, which nobody accepted yet"
    elif merge["would"] == "merge":
        first = " and ".join(f"`{command}`" for command in merge["verify"])
        yield "accept", f"merges into {merge['into']}" + (f" if {first} passes" if first else "")
    else:
        yield "accept", merge["why_not"]


def _told(label: str, text: str, width: int) -> Iterator[str]:
    flat = safe(" ".join(text.split())) if label else safe(text.expandtabs(4))
    begins = [f"{label:<{_MARGIN}}", " " * _MARGIN] if label else [f"{' ' * _MARGIN}| "] * 2
    room = max(width - len(begins[0]), 20) if width else columns(flat)
    first, *more = wrapped(flat, room, links=True)
    yield f"{begins[0]}{first}".rstrip()
    for line in more:
        yield f"{begins[1]}{line}"


def menu(choices: Sequence[tuple[str, str]], width: int = 0) -> str:
    """Return the keys and what each does, in as many lines as it takes."""
    lines, line = list[str](), ""
    for key, label in choices:
        told = f"[{key}] {label}"
        if line and width and columns(line) + 2 + columns(told) > width:
            lines.append(line)
            line = ""
        line += f"  {told}" if line else told
    return "\n".join([*lines, line])
