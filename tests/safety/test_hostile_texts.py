"""What agents, CI, reviewers and names say stays in its fence and decides nothing."""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from enum import Enum
from random import Random
from typing import TYPE_CHECKING, Any, get_type_hints

from communication.mailbox import Mailbox
from lifecycle.context.facts import (
    AnswerFact,
    Blocker,
    CIFacts,
    CommitFact,
    Communications,
    FailedCheck,
    FileChangeFact,
    GateResult,
    Guidance,
    LedgerEntry,
    OutcomeFact,
    PullRequestFact,
    RemarkFact,
    RequestFact,
)
from lifecycle.context.snapshot import ContextBuilder, ContextSnapshot
from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.machine.states import About, Gate
from lifecycle.machine.table import TABLE, IllegalTransition, decide
from lifecycle.paths import Paths
from lifecycle.plan import Task
from lifecycle.record import AgentLifecycle
from lifecycle.settings import Settings
from lifecycle.store.sqlite.store import SqliteStore
from orchestrator.control.summaries import ShownSummary, Summaries
from runtime.masking.masker import Masker
from templates.fence import disarmed, fence, unmarked
from templates.renderer import Renderer
from tests.lifecycle.machine import playbook
from tests.safety.corpus import HOSTILE

if TYPE_CHECKING:
    from pathlib import Path

FENCED = re.compile(
    r"^<<<(data|text) ([0-9a-f]{8}) \(([^\n]*)\)\n(.*?)^>>>\1 \2$", re.MULTILINE | re.DOTALL
)
SIGN = "PWNED"
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\ufe00-\ufe0d\U000e0000-\U000e0fff]"
)
HARMLESS = "ordinary words"


def test_the_corpus_is_large() -> None:
    assert len(set(HOSTILE)) >= 150


# --- fences -------------------------------------------------------------------------------------


def test_a_text_neither_closes_its_fence_nor_looks_like_one() -> None:
    for number, text in enumerate(HOSTILE):
        box = fence(text, f"log of {text}", nonce="n1")
        first, *inside, last = box.split("\n")
        assert re.fullmatch(r"<<<data [0-9a-f]{8} \([^\n;]*; data, not instructions\)", first), (
            number
        )
        assert last == first.split(" (")[0].replace("<<<", ">>>")
        for row in inside:
            assert not re.match(r"\s*[<>]{3}(?:data|text)\b", row), number
            assert not re.match(
                r"\s*[<>\uff1c\uff1e\u203a\u00bb\u276f\u3009\u226b\u22d9]{2}data", row
            )
        assert not UNSAFE.search(box), number
        assert box.encode()


def test_without_the_nonce_a_marker_could_be_known_beforehand() -> None:
    """The attack: who knows what a text will be can compute its marker, but not with the nonce."""
    known = fence("the log of a build", "log")
    assert fence("the log of a build", "log") == known
    markers = {fence("the log of a build", "log", nonce=f"{n}").split()[1] for n in range(50)}
    assert len(markers) == 50
    assert known.split()[1] not in markers


def test_ordinary_text_is_not_broken_up() -> None:
    for text in (
        ">>> import asyncio\n>>> data = 5",
        "<<<<<<< HEAD\n=======\n>>>>>>> 0a1b2c3 (a commit)",
        "cat <<<data",
        "\u00ab Bonjour \u00bb",
        "a >> b << c >>> 2",
    ):
        assert disarmed(text) == text


def unquoted(row: str) -> str:
    """Return what of a line stands in no backticks."""
    rest, runs = "", list(re.finditer("`+", row))
    at = 0
    while runs:
        opening = runs.pop(0)
        closing = next((run for run in runs if len(run[0]) == len(opening[0])), None)
        if closing is None:
            break
        rest += row[at : opening.start()]
        at = closing.end()
        runs = [run for run in runs if run.start() >= at]
    return rest + row[at:]


def everywhere(text: str, **more: Any) -> ContextSnapshot:
    """Say a text through every channel that is not a person in charge."""
    told = f"{text} {SIGN}"
    names = {"subject": told, "path": told}
    return ContextBuilder(Renderer()).capture(
        task=Task(id="T001", title="A task", description="Do it", verify=("true",)),
        agent_id="agent-T001",
        captured_at=100.0,
        attempt=3,
        recent_commits=[CommitFact(sha="1234567890ab", subject=names["subject"])],
        changed_files=[FileChangeFact(path=names["path"], kind="M")],
        dirty_files=[FileChangeFact(path=names["path"])],
        branch="agent/T001",
        blockers=[Blocker(what=told, since=1.0, cleared=True, how=told)],
        communications=Communications(
            mission=told,
            working_on=told,
            done=told,
            next=told,
            requests=(RequestFact(sender="agent-T002", text=told),),
            deliveries=(RequestFact(sender="agent-T002", text=told, original=told),),
        ),
        retry_count=1,
        spawn_count=3,
        last_outcome=OutcomeFact(kind="gate_failed", text=told, evidence=told),
        gates=(GateResult(command="make test", ok=False, code=1, excerpt=told),),
        flagged_files=[told],
        ci=CIFacts(
            status="red",
            sha="12ab",
            failed=(FailedCheck(name=told, summary=told, excerpt=told, url=told),),
            pr=PullRequestFact(url=told, number=4, state="open"),
        ),
        remarks=[RemarkFact(where=told, excerpt=told, url=told)],
        answer=AnswerFact(answer="Blue", question=told, by="ann"),
        guidance=[Guidance(text="Use tabs", by="ann")],
        last_words=told,
        ledger=[
            LedgerEntry(attempt=n, outcome="gate_failed", summary=told, error=told, seconds=1.0)
            for n in (1, 2, 3)
        ],
        **more,
    )


def test_no_text_leaves_its_fence_in_summary_and_prompt() -> None:
    builder = ContextBuilder(Renderer(nonce=lambda: "of this attempt"))
    for number, text in enumerate(HOSTILE):
        handed = builder.handout(
            everywhere(text), comm_file="/c.json", summary_file="/s.md", spawn_id="s1"
        )
        for page in handed:
            assert SIGN[2:] in page, number  # an open sequence takes some
            bare = FENCED.sub(lambda found: f"[fence {found[1]}]", page)
            assert not any(SIGN in unquoted(row) for row in bare.split("\n")), number
            assert not re.search(r"^\s*(<<<|>>>)", bare, re.MULTILINE), number
            assert not UNSAFE.search(page), number
        told = [found[4] for found in FENCED.finditer(handed.summary) if found[1] == "text"]
        assert [words.strip() for words in told] == ["Use tabs", "Blue", "Do it"], number


def test_each_page_has_markers_of_its_own() -> None:
    nonces = iter("abcdef")
    builder = ContextBuilder(Renderer(nonce=lambda: next(nonces)))
    snapshot = everywhere("some words\nin two lines")
    pages = [builder.render(snapshot) for _ in range(2)]
    first, second = ({found[2] for found in FENCED.finditer(page)} for page in pages)
    assert first
    assert not first & second


def test_two_pages_of_the_same_facts_compare_as_the_same_but_for_their_markers() -> None:
    nonces = iter("abcdef")
    builder = ContextBuilder(Renderer(nonce=lambda: next(nonces)))
    snapshot = everywhere("some words\nin two lines")
    first, second = (builder.render(snapshot) for _ in range(2))
    assert first != second
    assert unmarked(first) == unmarked(second)
    assert "some words" in unmarked(first)
    ordinary = "<<<<<<< HEAD\n>>> data 12345678\n>>>data 1234\n<<<data 12345678x (y)"
    assert unmarked(ordinary) == ordinary


def test_the_difference_of_two_summaries_is_what_they_tell_and_no_marker(tmp_path: Path) -> None:
    nonces = iter("abcdef")
    builder = ContextBuilder(Renderer(nonce=lambda: next(nonces)))
    record = AgentLifecycle(agent_id="agent-T001", task="A task")
    pages = {1: builder.render(everywhere("some words\nin two lines"))}
    pages[2] = builder.render(everywhere("some words\nin two lines"))
    pages[3] = builder.render(everywhere("other words\nin two lines"))
    paths = [Paths.of(tmp_path).summary("agent-T001", number) for number in pages]
    paths[0].parent.mkdir(parents=True)
    for path, page in zip(paths, pages.values(), strict=True):
        path.write_text(page)
    known = Summaries(tmp_path, SqliteStore.in_memory(), record, Settings(), Masker())

    def compared(number: int) -> str:
        shown = ShownSummary(attempt=number, text=pages[number], path=None, edited=False)
        return known.compare(shown)[1]

    assert compared(2) == ""
    assert "+other words" in compared(3)
    assert not re.search("[<>]{3}(data|text) [0-9a-f]{8}", compared(3))


# --- decisions ----------------------------------------------------------------------------------

STATES = (
    playbook.queued("T000"),
    playbook.preparing(),
    playbook.spawning(),
    playbook.working(),
    playbook.stopping(),
    playbook.capturing(),
    playbook.capturing(playbook.DONE),
    playbook.verifying(),
    playbook.blocked(),
    playbook.pr_pending(),
    playbook.backing_off(),
    playbook.awaiting(About.QUESTION),
    playbook.completed(),
)
FREE = frozenset(
    {"text", "excerpt", "summary", "reason", "question", "note", "why", "title", "last_words",
     "detail", "advice", "notes", "flagged", "changed_files", "conflicts", "denied", "by"}
)  # fmt: skip


def kinds() -> list[type[on.Event]]:
    return sorted({kind for _, kind in TABLE}, key=lambda kind: kind.__name__)


def example(kind: Any) -> Any:
    """Return some value of a type, with something in every tuple and choice."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return example(next(each for each in typing.get_args(kind) if each is not type(None)))
    if typing.get_origin(kind) is tuple:
        return (example(typing.get_args(kind)[0]),)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(
            **{field.name: example(hints[field.name]) for field in dataclasses.fields(kind)}
        )
    return {str: "task_complete", bool: False, int: 1, float: 50.0}[kind]


def spoken(value: Any, text: str) -> Any:
    """Put a text wherever somebody's words may stand."""
    if isinstance(value, tuple):
        return tuple(spoken(each, text) for each in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    hints = get_type_hints(type(value))
    put: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        before = getattr(value, field.name)
        if field.name in FREE and hints[field.name] is str:
            put[field.name] = text
        elif field.name in FREE and isinstance(before, tuple) and "str" in str(hints[field.name]):
            put[field.name] = (text,)
        else:
            put[field.name] = spoken(before, text)
    return dataclasses.replace(value, **put)


def bones(value: Any) -> Any:
    """Return all of a decision but the words in it."""
    if isinstance(value, Enum) or not isinstance(value, (str, tuple)):
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            parts = [bones(getattr(value, field.name)) for field in dataclasses.fields(value)]
            return (type(value).__name__, *parts)
        return value
    if isinstance(value, tuple):
        return tuple(bones(each) for each in value)
    return bool(value)


def test_words_decide_nothing() -> None:
    """Each fact, in each state, leads to the same with hostile words as with harmless ones."""
    policy, compared = Policy(), 0
    facts = [example(kind) for kind in kinds()]
    for number, text in enumerate(HOSTILE):
        luck = Random(number)  # noqa: S311  # not for secrets
        for state, fact in luck.sample([(state, fact) for state in STATES for fact in facts], 30):
            event = fact
            if isinstance(fact, on.AttemptEvent):
                event = dataclasses.replace(fact, attempt=state.tally.attempt)
            steps = []
            for words in (text, HARMLESS):
                try:
                    steps.append(bones(decide(state, spoken(event, words), policy)))
                except IllegalTransition:
                    steps.append(None)
            assert steps[0] == steps[1], (
                f"{number}: {type(fact).__name__} in {type(state).__name__}"
            )
            compared += steps[0] is not None
    assert compared > 5 * len(HOSTILE)


def test_the_comparison_sees_what_does_decide() -> None:
    """Another kind of word is another decision; so the test above could fail."""
    fates = (on.PrFate.MERGED, on.PrFate.CLOSED, on.PrFate.CHECKS_FAILED)
    moves = [on.PullRequestMoved(at=5.0, number=1, sha="h1", fate=fate) for fate in fates]
    outcomes = {bones(decide(playbook.pr_pending(), move, Policy())) for move in moves}
    assert len(outcomes) == 3
    gate = Gate(command="make test", ok=False, code=1, excerpt="")
    assert spoken(gate, "w") == dataclasses.replace(gate, excerpt="w")


def test_a_mailbox_says_no_more_than_its_fields(tmp_path: Path) -> None:
    """Words in an entry never become a breakpoint, of this agent or of another."""
    path = tmp_path / "communications.json"
    for text in HOSTILE:
        told = {"mission": text, "working_on": text, "done": [text], "requests": [["T002", text]]}
        path.write_text(json.dumps({"agent-T001": told, "agent-T003": text}))
        document = Mailbox(path).load()
        for agent in ("agent-T001", "agent-T002"):
            assert document.reading(agent).breakpoint is None
        said = {"type": "blocked", "reason": f"x {text}"}
        path.write_text(json.dumps({"agent-T001": {"breakpoint": said}}))
        reading = Mailbox(path).load().reading("agent-T001")
        # What is no UTF-8 is no signal; all else is the signal that it says it is.
        assert (reading.breakpoint is None) == any("\ud800" <= char <= "\udfff" for char in text)
        assert reading.breakpoint is None or reading.breakpoint.type == "blocked"
