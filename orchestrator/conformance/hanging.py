"""The case of a program that gets no answer: whether the idle rule sees it, and it ends.

Judges facts and knows no program by name: where an adapter names a variable for the address of its
model, that leads to a server that never answers; a plain command is asked to do nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.conformance import prompts
from orchestrator.conformance.facts import facts_of, shown
from orchestrator.conformance.replay import GOOD
from orchestrator.conformance.silent import silent_server
from orchestrator.conformance.verdict import Verdict, failed, not_provoked, passed
from runtime.agents.outcome import Ending

if TYPE_CHECKING:
    from orchestrator.conformance.bench import Bench
    from orchestrator.conformance.trial import Ran

_DOOR = "_BASE_URL"
"""How the names of variables end that hold the address of a model."""


async def hang(bench: Bench) -> Verdict:
    """Judge what becomes of it when nothing answers."""
    adapter = bench.subject.adapter
    doors = tuple(name for name in (*adapter.keys, *adapter.passes) if name.endswith(_DOOR))
    if adapter.programs and not doors:
        return not_provoked("its adapter names no variable that leads it to a silent model")
    place = await bench.place(8)
    async with silent_server() as server:
        ran = await bench.run(
            place,
            prompts.HANG,
            launch=bench.launch(place, passes=doors),
            variables=dict.fromkeys(doors, server.url),
            idle=True,
        )
        asked = server.asked
    return _hung(ran, asked=asked, led=bool(doors), idle=bench.subject.bounds.idle)


def _hung(ran: Ran, *, asked: int, led: bool, idle: float) -> Verdict:
    evidence = facts_of(ran) | {"asked_the_silent_model": asked}
    if led and not asked:
        return not_provoked(f"it never asked the silent model; outcome {shown(ran)}", **evidence)
    if ran.ended_by is None and not asked:
        return not_provoked(f"it did not hang: it ended, with {shown(ran)}", **evidence)
    if wrong := _wrong(ran):
        return failed(wrong, **evidence)
    if ran.ended_by is None:
        return passed(f"it gave up by itself after {ran.seconds:.0f} s: {shown(ran)}", **evidence)
    return passed(f"ended after {idle:g} s of silence; outcome {ran.ending}", **evidence)


def _wrong(ran: Ran) -> str:
    if ran.ended_by is Ending.TIMEOUT:
        return (
            f"it went on printing or computing for {ran.seconds:.0f} s without a reason, so that "
            "the idle rule never saw that it hangs"
        )
    if ran.report.survivors:
        return f"processes {list(ran.report.survivors)} outlived even KILL"
    if ran.outcome is None:
        return f"its parser failed: {ran.problem}"
    if ran.outcome.outcome in GOOD:
        return f"it got no answer, but its outcome is {shown(ran)}"
    return ""
