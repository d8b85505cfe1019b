"""What each state means, in sentences: the one table, by the name of the work state.

For each state: what it waits for or how it ended (lists), the line when it is entered (people who
watch), and what to type next (the end of a run). Its name for people is in `lifecycle.state_words`,
the whole sentence in `why`.

Works on the fields of a state, as they are stored or as `vars` gives them. Imports nothing heavy,
so that lists stay fast.
"""

from __future__ import annotations

from lifecycle.state_words import (
    ACCEPTED,
    DONE,
    GIVEN_UP,
    NEEDS_YOU,
    PAUSED,
    QUEUED,
    REJECTED,
    STOPPED,
    WORKING,
    commands_for,
    word_of,
)

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Span = Callable[[float], str]
    Fields = Mapping[str, Any]

COLOURS = {
    WORKING: "cyan",
    DONE: "green",
    ACCEPTED: "green",
    GIVEN_UP: "red",
    REJECTED: "red",
    NEEDS_YOU: "yellow",
    PAUSED: "dim",
    STOPPED: "dim",
}
"""The colour of each word that has one."""
A_SLOT = "a free slot"
"""It could continue at once if fewer agents were alive."""
UNREADABLE = "you; its record cannot be read: see `loopwright doctor`"
"""Its state may be any."""
START, CONTINUE = "`loopwright up`, which starts it", "`loopwright up`, which continues it"
ACCEPT = "accept {}"
UP, NOTHING = ("up", "continues where it stopped"), ("", "")
WHY = "show {} --why"


def waiting_for(
    kind: str, work: Fields | None, present: float, span: Span, *, runs: bool = True
) -> str:
    """Return in a few words what has to happen next; empty while an attempt is under way.

    Without a runner (`runs`) it is somebody who starts one.
    """
    text = "" if work is None or not kind else STATES[kind].waits(work, present, span)
    if runs or not kind:
        return text
    word = word_of(kind, work, runs=False)
    if word == QUEUED and text == A_SLOT:
        return START
    if word == STOPPED and kind != "Suspended":
        return f"{CONTINUE}; then {text}" if STATES[kind].outside else CONTINUE
    return text


def with_trouble(kind: str, waits: str, text: object) -> str:
    """Return what a lifecycle waits for, with what is wrong outside at present."""
    return f"{waits}; {text}" if text and kind and STATES[kind].outside else waits


def ended_with(kind: str, work: Fields | None) -> str:
    """Return in a few words how it ended; empty if it has not."""
    return STATES[kind].end(work or {}) if kind else ""


def entered(kind: str, work: Fields, before: str, present: float, span: Span) -> str:
    """Tell in a line that the state was entered from `before`; nothing where a fact tells it."""
    words, word = STATES[kind], word_of(kind, work)
    if words.outside:
        return f"{word} for {words.waits(work, present, span)}"
    left = work["until"] - present if kind == "BackingOff" else 0.0
    return words.line(word, work, before) + (f"; next attempt in {span(left)}" if left > 1 else "")


def next_step(kind: str, work: Fields | None, *, asks_people: bool = False) -> tuple[str, str]:
    """Return what to type next ({} is the agent) and what else there is; ('', '') for nothing.

    `asks_people`: it is blocked on what only a person can move.
    """
    if kind == "Blocked" and asks_people:
        return WHY, "or: answer, unblock; then: loopwright up"
    return STATES[kind].next_step(work or {}) if kind else NOTHING


def decide_next(words: Iterable[str], repo: str = "") -> tuple[str, str]:
    """Return what waits for decisions, by the words of their states, and where to make these."""
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    listed = ", ".join(f"{count} {word}" for word, count in counts.items())
    return (
        f"{listed}: wait for your decision.",
        f"Next: loopwright review{repo}   (in the browser: loopwright serve{repo}, and its link)",
    )


def type_next(lifecycles: Iterable[tuple[str, str, Fields]]) -> str:
    """Return in a line what people who watch can type next about these (agent, state, fields)."""
    asks, done, moving = list[tuple[str, str]](), list[str](), ""
    for agent_id, kind, work in lifecycles:
        word = word_of(kind, work)
        if word == NEEDS_YOU:
            asks.append((agent_id, commands_for(str(work.get("about")))[0].format(agent_id)))
        elif word == DONE:
            done.append(agent_id)
        elif word == WORKING:
            moving = moving or agent_id
    if asks:
        (_, command), *others = asks
        more = [f"{len(others)} more: loopwright ps --needs-me"] if others else []
        more += [f"{len(done)} done: loopwright review"] if done else []
        return f"Next: loopwright {command}" + (f"   ({'; '.join(more)})" if more else "")
    if done:
        return f"Next: loopwright review   ({len(done)} done)"
    return f"Look closer: loopwright logs {moving} -f" if moving else "Ctrl-C stops all, cleanly"


def since(work: Fields | None, updated_at: float) -> float:
    """Return when the state began, as well as the row tells."""
    found = (work or {}).get("since")
    return float(found) if isinstance(found, (int, float)) else updated_at


class StateWords:
    """One row of the table; what is left out has nothing to say."""

    def __init__(
        self,
        *,
        waits: Callable[[Fields, float, Span], str] = lambda _work, _present, _span: "",
        line: Callable[[str, Fields, str], str] = lambda _word, _work, _before: "",
        end: Callable[[Fields], str] = lambda _work: "",
        next_step: Callable[[Fields], tuple[str, str]] = lambda _work: UP,
        outside: bool = False,
    ) -> None:
        self.waits, self.line, self.end, self.next_step = waits, line, end, next_step
        self.outside = outside
        """What it waits for happens outside, so it is named also where no runner is."""


def _queued(work: Fields, _present: float, _span: Span) -> str:
    return _listed(work.get("waiting_on")) or A_SLOT


def _frozen(work: Fields, _present: float, _span: Span) -> str:
    return "your resume; its processes are frozen" if work.get("frozen") else ""


def _again(work: Fields, present: float, span: Span) -> str:
    again_at = work.get("again_at")
    return f"another try in {span(again_at - present)}" if again_at else ""


def _blocker(work: Fields, _present: float, _span: Span) -> str:
    word = _part(work, "word")
    return _listed(word.get("blocked_on")) or str(word.get("reason") or "something unnamed")


def _merge(work: Fields, _present: float, _span: Span) -> str:
    problem = "" if work.get("number") else str(work.get("problem") or "")
    if problem:
        return f"its pull request, which cannot be opened yet: {problem}"
    return f"the merge of {work.get('url') or 'its pull request'}"


def _instant(work: Fields, present: float, span: Span) -> str:
    left = float(work.get("until") or 0.0) - present
    return f"its next attempt in {span(left)}" if left > 0 else A_SLOT


def _person(work: Fields, _present: float, _span: Span) -> str:
    text = str(work.get("text") or "")
    return {
        "question": f"your answer: {text}",
        "review": "your approval of its summary",
        "blocked_timeout": f"you; still blocked on {_listed(work.get('blocked_on')) or text}",
        "pr_timeout": f"you; not merged: {work.get('url') or 'its pull request'}",
        "dependency": f"you; failed: {_listed(work.get('failed'))}",
    }.get(str(work.get("about")), f"you; {text}")


def _decision(work: Fields, _present: float, _span: Span) -> str:
    if work.get("merging"):
        return "its merge"
    problem = work.get("problem")
    return f"you; not merged: {problem}" if problem else "your accept or reject"


def _prepares(_word: str, work: Fields, _before: str) -> str:
    said = _listed(_part(work, "tally").get("depends_on"))
    return f"merging the work of {said} into its branch" if said else "preparing its workspace"


def _done(word: str, work: Fields, before: str) -> str:
    how = word if before == "Verifying" else f"{word}, not verified (no verify command)"
    return f"{how}: {work['summary']}" if work["summary"] else how


def _ended(word: str, work: Fields, _before: str) -> str:
    named = word if word == REJECTED else f"{word} ({work['reason']})"
    return f"{named}: {work['text']}"


def _answer(work: Fields) -> tuple[str, str]:
    about = str(work.get("about"))
    if about == "pr_timeout":
        return "pr list", "then: loopwright pr merge N, and loopwright up"
    if about == "review":
        return "summary {}", "then: loopwright summary approve, and loopwright up"
    verbs = [command.partition(" ")[0] for command in commands_for(about)]
    return WHY, f"or: {', '.join(verbs)}"


def _take_up(work: Fields) -> tuple[str, str]:
    return NOTHING if work.get("reason") == "person" else (WHY, "then: loopwright resume")


def _part(work: Fields, name: str) -> Fields:
    """Return a field that has fields of its own, as it is stored or as it lives."""
    found = work.get(name) or {}
    return found if isinstance(found, dict) else vars(found)


def _listed(names: Any) -> str:
    return ", ".join(str(name) for name in names or ())


def _verifies(_word: str, work: Fields, _before: str) -> str:
    reviewed = bool(work.get("green"))
    return "another program reviews it" if reviewed else "running the verify commands"


STATES = {
    "Queued": StateWords(waits=_queued),
    "Preparing": StateWords(line=_prepares),
    "Spawning": StateWords(),
    "Working": StateWords(waits=_frozen),
    "Stopping": StateWords(),
    "Capturing": StateWords(waits=_again),
    "Verifying": StateWords(waits=_again, line=_verifies),
    "Blocked": StateWords(waits=_blocker, outside=True),
    "PrPending": StateWords(
        waits=_merge,
        next_step=lambda _: ("pr list", "or: loopwright up, to wait again"),
        outside=True,
    ),
    "BackingOff": StateWords(waits=_instant, line=lambda _word, work, _before: f"{work['why']}"),
    "AwaitingHuman": StateWords(
        waits=_person,
        line=lambda word, work, _before: f"{word}: {work['text']}",
        next_step=_answer,
    ),
    "Suspended": StateWords(
        waits=lambda *_: "your resume",
        line=lambda word, _work, _before: f"{word} until it is resumed",
        next_step=lambda _: ("resume {}", "then: loopwright up"),
    ),
    "Completed": StateWords(
        waits=_decision, line=_done, next_step=lambda _: (ACCEPT, "or: reject, guide")
    ),
    "Accepted": StateWords(
        end=lambda work: f"merged as {str(work.get('commit', ''))[:7]}",
        next_step=lambda _: NOTHING,
    ),
    "Rejected": StateWords(
        line=_ended, end=lambda work: str(work.get("text", "")), next_step=_take_up
    ),
}
"""By the name of the work state; a test holds it to the machine's own list."""
