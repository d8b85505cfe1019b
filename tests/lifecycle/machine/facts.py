"""Any fact, any policy. What is drawn is small, so that walks meet themselves often."""

from __future__ import annotations

from dataclasses import fields
from itertools import product
from typing import TYPE_CHECKING, Any, get_type_hints

from lifecycle.machine import events as on
from lifecycle.machine.opinion import SEVERITIES, Finding, Opinion
from lifecycle.machine.policy import Policy
from lifecycle.machine.rules.endings import TREATMENTS
from lifecycle.machine.states import AttemptOutcome, Gate, RemarkReply, Signal, UnavailableProgram
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.playbook import PROCESS

if TYPE_CHECKING:
    from random import Random

TASKS = ("T000", "T001")
SOME_TASKS = ((), ("T000",), ("T001",), ("T001", "T000"))
GATES = tuple(
    tuple(Gate(command=f"gate {code}", ok=code == 0, code=code) for code in codes)
    for codes in ((), (0,), (0, 0), (0, 1), (None,))
)
WORDS = (
    *(Signal(type="task_complete", summary=text) for text in ("", "all of it")),
    *(Signal(type="blocked", blocked_on=tasks, reason=why)
      for tasks, why in product(SOME_TASKS, ("", "no key"))),
    *(Signal(type="pr_created", pr_url=url) for url in ("", "local://pr/1", "local://pr/2")),
    Signal(type="pr_created", replies=(RemarkReply(remark="r1abc", text="Done."),)),
    Signal(type="question", question="which port?"),
)  # fmt: skip
BY_TYPE: dict[str, tuple[Signal, ...]] = {
    kind: tuple(word for word in WORDS if word.type == kind)
    for kind in ("task_complete", "blocked", "pr_created", "question")
}

ENDINGS = tuple(TREATMENTS)
"""What a program, or the runner while it works, may say of an attempt's end."""
PROGRAMS = ("", "a", "b")
RESTS: tuple[tuple[UnavailableProgram, ...], ...] = (
    *((), ()),
    *((UnavailableProgram(program=name, why="limit", until=until),)
      for name, until in product(PROGRAMS, (60.0, 5_000.0, 200_000.0))),
    tuple(UnavailableProgram(program=name, why="limit", until=900.0) for name in PROGRAMS),
)  # fmt: skip

OPINIONS = tuple(
    Opinion(by="codex", head=head, approves=not found, findings=found)
    for head in ("h1", "h2")
    for found in (
        (),
        *((Finding(severity=grave, text="wrong", place=place),)
          for grave in SEVERITIES for place in ("", "missing")),
    )
)  # fmt: skip

NAMED: dict[str, tuple[Any, ...]] = {
    "at": (0.0,),
    "attempt": (0,),
    "spawn_id": ("", "", PROCESS.spawn_id, "another"),
    "interrupted": ("", "", "", "the runner was shutting down"),
    "task_id": TASKS,
    "ci": ("", "none", "pending", "green", "red"),
    "sha": ("", "h1", "h2"),
    "head": ("h1", "h2"),
    "tree": ("", "t1", "t1", "t2"),
    "url": ("", "local://pr/1", "local://pr/2"),
    "number": (1, 2),
    "problem": ("", "", "", "no space"),
    "exit_code": (None, 0, 1),
    "signal": (None, 9),
    "dirty": ((), (), ("a.py",)),
    "elsewhere": ("", "", "", "branch other, not on agent/a"),
    "gates": GATES,
    "baseline": GATES,
    "process": (PROCESS,),
    "over": ("", "", "", "", "", "", "", "budget of the day: 3 of 3 attempts used"),
    "resting": RESTS,
    "reset_at": (None, None, -5.0, 100.0, 4_000.0, 5_000_000.0),
    "opinion": (None, *OPINIONS),
    "outcome": (None, *(AttemptOutcome(ended=each) for each in ENDINGS)),
    "details": ((), (on.Detail(title="unit: Run pytest", text="1 failed"),)),
}
TYPED: dict[Any, tuple[Any, ...]] = {
    str: ("", "some text"),
    bool: (False, True),
    int: (0, 2),
    float: (0.0, 2.5),
    on.Fault: tuple(on.Fault),
    on.PrFate: tuple(on.PrFate),
    Ending: ENDINGS,
    int | None: (None, 7),
    float | None: (None, 0.5),
    tuple[str, ...]: SOME_TASKS,
}
HINTS = {
    kind: get_type_hints(kind)
    for kind in vars(on).values()
    if isinstance(kind, type) and issubclass(kind, (on.Event, on.AgentReport))
}


def said(kind: type[on.Event | on.AgentReport], luck: Random) -> dict[str, Any]:
    """Draw what an event of one kind says; who tells it sets its instant and attempt."""
    return {field.name: _value(field.name, HINTS[kind][field.name], luck) for field in fields(kind)}


def _value(name: str, hint: Any, luck: Random) -> Any:
    if hint in (Signal, Signal | None):
        if hint is not Signal and luck.random() < 0.5:
            return None
        return luck.choice(BY_TYPE[luck.choice(tuple(BY_TYPE))])
    if hint == on.AgentReport | None:
        return None if luck.random() < 0.5 else on.AgentReport(**said(on.AgentReport, luck))
    return luck.choice(NAMED[name] if name in NAMED else TYPED[hint])


def policy(luck: Random) -> Policy:
    """Draw the numbers; each is generous half of the time, so that walks get far."""

    def one_of(generous: float, *tight: float) -> Any:
        return generous if luck.random() < 0.5 else luck.choice(tight)

    return Policy(
        max_retries=one_of(50, 1, 3, 0),
        max_attempts=one_of(80, 1, 3),
        retry_interval=one_of(30.0, 0.0),
        retry_interval_cap=one_of(600.0, 10.0),
        blocked_timeout=one_of(86_400.0, 1.0),
        pr_merge_timeout=one_of(3600.0, 1.0),
        stuck_limit=one_of(9, 1, 2, 0),
        same_gate_limit=one_of(5, 0, 1, 2),
        breaker_cooldown=one_of(3600.0, 0.0, 5.0),
        limit_interval=one_of(300.0, 0.0),
        limit_margin=one_of(30.0, 0.0),
        limit_patience=one_of(691_200.0, 0.0, 500.0),
        trouble_interval=one_of(30.0, 0.0),
        max_troubles=one_of(50, 0, 2),
        programs=luck.choice(((), (), ("a",), ("a", "b"))),
        ci_fix_limit=one_of(9, 0, 1),
        max_faults=one_of(9, 0, 1),
        has_gates=luck.random() < 0.5,
        review_summaries=luck.random() < 0.2,
        reviews=luck.random() < 0.5,
        review_rounds=one_of(9, 0, 1),
        review_severity=luck.choice(SEVERITIES),
        seed=luck.randrange(10),
    )
