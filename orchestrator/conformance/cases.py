"""The cases: what is asked of the program, and what its facts mean.

Each is data and one function. They judge facts and know no program by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from communication.mailbox import Mailbox, ReadingKind
from orchestrator.conformance import case_inspection, prompts
from orchestrator.conformance.case_hanging import hang
from orchestrator.conformance.trial import facts_of, shown, unfinished
from orchestrator.conformance.verdict import CaseVerdict, failed, not_provoked, passed
from runtime import proc_table
from runtime.agents.outcome import Ending

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from orchestrator.conformance.workbench import Workbench

_LONG = 600
_FLOOD = 20
"""How many times the log's cap it is asked to print."""
_UNEXPLAINED = frozenset({Ending.ERROR, Ending.CRASH, Ending.KILLED, Ending.TIMEOUT, Ending.HANG})
_BLOCK = 2 * 4096


@dataclass(frozen=True, slots=True)
class ConformanceCase:
    """One thing that is tried."""

    name: str
    text: str
    """What has to hold, in one line."""
    judge: Callable[[Workbench], Awaitable[CaseVerdict]]
    turns: int = 0
    """About how many answers of a model it takes."""


async def _turn(bench: Workbench) -> CaseVerdict:
    _, _, ran = await bench.turn()
    if wrong := unfinished(ran):
        return failed(wrong, **facts_of(ran))
    if ran.unread:
        return failed(
            f"it left {ran.unread} bytes of its prompt unread; read standard input to its end",
            **facts_of(ran),
        )
    if ran.ending != Ending.COMPLETED:
        return failed(f"its outcome is {shown(ran)}, not completed", **facts_of(ran))
    return passed(f"it read its prompt and ended by itself in {ran.seconds:.1f} s", **facts_of(ran))


async def _breakpoint(bench: Workbench) -> CaseVerdict:
    place = await bench.place(2)
    prompt = prompts.breakpoint_prompt(
        agent_id="agent-conformance",
        spawn_id=place.spawn_id,
        work=place.work,
        mailbox=place.mailbox,
    )
    ran = await bench.run(place, prompt)
    reading = (
        Mailbox(place.mailbox)
        .load()
        .reading("agent-conformance", spawn_id=place.spawn_id, task_id=prompts.TASK)
    )
    evidence = facts_of(ran) | {"mailbox": str(reading.kind)}
    if wrong := unfinished(ran):
        return failed(wrong, **evidence)
    if reading.kind is ReadingKind.SIGNAL and reading.breakpoint is not None:
        told = reading.breakpoint
        owner = "for this very attempt" if told.spawn_id else "without naming its attempt"
        return passed(f"it signalled {told.type} {owner}", **evidence)
    if reading.problem:
        return failed(f"its signal does not count: {reading.problem}", **evidence)
    return failed(f"it ended without a signal in its mailbox; outcome {shown(ran)}", **evidence)


async def _huge(bench: Workbench) -> CaseVerdict:
    place = await bench.place(3)
    size = bench.subject.bounds.prompt
    ran = await bench.run(place, prompts.huge(size))
    if wrong := unfinished(ran):
        return failed(wrong, **facts_of(ran))
    if ran.unread:
        return failed(
            f"it left {ran.unread} of {size} bytes of its prompt unread; read standard input to "
            "its end",
            **facts_of(ran),
        )
    if ran.outcome is None or ran.outcome.outcome in _UNEXPLAINED:
        return failed(
            f"{size} bytes are read, but how it ended is not known: {shown(ran)}", **facts_of(ran)
        )
    return passed(f"{size} bytes are read to their end; outcome {ran.ending}", **facts_of(ran))


async def _stop(bench: Workbench) -> CaseVerdict:
    place = await bench.place(4)
    started = place.work / prompts.STARTED
    ran = await bench.run(place, prompts.stop(_LONG), until=lambda: _has_text(started))
    evidence = facts_of(ran)
    if ran.report.survivors:
        return failed(f"processes {list(ran.report.survivors)} survived even KILL", **evidence)
    if ran.ended_by is not Ending.KILLED:
        return not_provoked(f"no tool of it ran: it ended before, with {shown(ran)}", **evidence)
    order = bench.subject.adapter.stop
    evidence |= {
        "obeyed": ran.obeyed,
        "stop_seconds": round(ran.stop_seconds, 2),
        "left_its_tool": bool(ran.report.left_behind),
    }
    asked = f"{' then '.join(order.signals)} to its {order.to}"
    if not ran.obeyed:
        return failed(
            f"it ignored {asked} within {order.grace:g} s and had to be killed; give "
            "the adapter a stop order that works",
            **evidence,
        )
    rest = "its tool had to be ended too" if ran.report.left_behind else "with its tool"
    return passed(
        f"{asked} ended it in {ran.stop_seconds:.2f} s, {rest}; nothing is left", **evidence
    )


async def _denied(bench: Workbench) -> CaseVerdict:
    place = await bench.place(5)
    ran = await bench.run(place, prompts.denied(), launch=bench.launch(place, unattended=False))
    evidence = facts_of(ran)
    if ran.ended_by is not None:
        return failed(
            f"it waited {ran.seconds:.0f} s, most likely for somebody to permit a tool; it must "
            "refuse and go on",
            **evidence,
        )
    if ran.outcome is None:
        return failed(f"its parser failed: {ran.problem}", **evidence)
    if (place.work / prompts.PROBE).exists():
        return not_provoked("it ran the tool without asking: nothing is forbidden", **evidence)
    if ran.outcome.denied or ran.outcome.outcome is Ending.DENIED:
        named = ", ".join(ran.outcome.denied) or ran.outcome.detail
        return passed(f"it refused, and the outcome names it: {named}", **evidence)
    if not ran.outcome.tool_calls:
        return not_provoked(f"it reported no call of a tool; outcome {shown(ran)}", **evidence)
    return failed(
        f"the tool did not run, but the outcome does not say that it was denied: {shown(ran)}",
        **evidence,
    )


async def _leftovers(bench: Workbench) -> CaseVerdict:
    place = await bench.place(6)
    ran = await bench.run(place, prompts.leftovers(_LONG))
    left = _number(place.work / prompts.LEFT)
    evidence = facts_of(ran)
    if ran.report.survivors or (left is not None and _lives(left)):
        return failed("what it left in the background could not be ended", **evidence)
    if ran.ended_by is not None and left is not None:
        return failed(
            f"it did not end its turn in {ran.seconds:.0f} s: it waits for what it left in the "
            "background",
            **evidence,
        )
    if wrong := unfinished(ran):
        return failed(wrong, **evidence)
    if left is None and not ran.report.left_behind:
        return not_provoked(f"it left nothing in the background; outcome {shown(ran)}", **evidence)
    count = ran.report.left_behind
    if not count:
        return passed("it ended what it had in the background by itself", **evidence)
    return passed(f"it left {count} in the background; found and ended", **evidence)


async def _flood(bench: Workbench) -> CaseVerdict:
    place, bounds = await bench.place(7), bench.subject.bounds
    ran = await bench.run(place, prompts.flood(_FLOOD * bounds.log_cap))
    evidence = facts_of(ran) | {"kept_bytes": ran.kept, "runner_grew_bytes": ran.grown}
    if wrong := unfinished(ran):
        return failed(wrong, **evidence)
    if ran.kept > bounds.log_cap + _BLOCK:
        return failed(f"its log has {ran.kept} bytes, {bounds.log_cap} are allowed", **evidence)
    if ran.grown > bounds.memory:
        return failed(f"the runner grew by {ran.grown >> 20} MB while it printed", **evidence)
    if ran.written <= bounds.log_cap:
        return not_provoked(
            f"it printed {ran.written} bytes, within the {bounds.log_cap} that are kept", **evidence
        )
    return passed(
        f"it printed {ran.written} bytes, of which {ran.kept} are kept; the runner grew by "
        f"{ran.grown >> 10} kB",
        **evidence,
    )


def _has_text(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _number(path: Path) -> int | None:
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeError):
        return None
    return int(text) if text.isascii() and text.isdigit() else None


def _lives(pid: int) -> bool:
    row = proc_table.read_row(pid)
    return row is not None and not row.dead


CASES: tuple[ConformanceCase, ...] = (
    ConformanceCase("version", "It tells its version.", case_inspection.version),
    ConformanceCase(
        "turn", "It reads its prompt to the end, ends by itself, and that is seen.", _turn, 1
    ),
    ConformanceCase(
        "breakpoint", "Its signal is in the mailbox, for this attempt.", _breakpoint, 3
    ),
    ConformanceCase(
        "huge-prompt", "A prompt of 1 MB is read to its end; the outcome is known.", _huge, 1
    ),
    ConformanceCase("stop", "While a tool runs it ends on the adapter's stop order.", _stop, 1),
    ConformanceCase("denied", "A tool that is not permitted is refused, and named.", _denied, 2),
    ConformanceCase(
        "leftovers", "What it leaves in the background is found and ended.", _leftovers, 2
    ),
    ConformanceCase("flood", "However much it prints, log and memory stay small.", _flood, 2),
    ConformanceCase("hang", "When nothing answers, the idle rule sees it and it is ended.", hang),
    ConformanceCase(
        "environment",
        "Only permitted variables reach it.",
        case_inspection.environment,
    ),
    ConformanceCase("config", "Its private settings stay private.", case_inspection.config),
    ConformanceCase("lines", "No line of output makes its parser fail.", case_inspection.lines),
    ConformanceCase("outcome", "Exit code and outcome agree.", case_inspection.outcome),
)
