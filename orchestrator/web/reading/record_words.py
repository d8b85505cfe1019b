"""What a record says of itself: its plan, its program, since when, and a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lifecycle.machine.states import About, AwaitingHuman, Completed
from orchestrator.wording.states import ended_with, since

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle


def plan_of(record: AgentLifecycle) -> str:
    """Return the plan that a lifecycle came with; empty for none."""
    mark = record.facts.get("plan")
    return str(mark.get("name") or "") if isinstance(mark, dict) else ""


def says_of(record: AgentLifecycle) -> str:
    """Return what does not change with time; nothing where the table of states says it."""
    work = record.work
    match work:
        case Completed() if not work.problem and not work.merging:
            proof = f"{len(work.passed)} gates green" if work.passed else "not verified"
            proof = proof.replace("1 gates", "1 gate")
            count = len(work.changed_files)
            files = f"{count} file{'' if count == 1 else 's'}"
            flags = f"changed {', '.join(work.flagged)}; " if work.flagged else ""
            return f"{flags}{files}, {proof}: {work.summary}" if work.summary else f"{flags}{files}"
        case AwaitingHuman() if work.about is About.QUESTION:
            return work.text
        case None:
            return record.error or ""
        case _ if type(work).__name__ in {"Accepted", "Rejected"}:
            return ended_with(type(work).__name__, vars(work))
    return ""


def since_of(work: State | None, record: AgentLifecycle) -> float:
    """Return when its state began."""
    return since(vars(work) if work is not None else None, record.updated_at)


def program_of(agent: dict[str, Any], present: str) -> str:
    """Return which agent program works on it, or would."""
    if present:
        return present.partition(":")[0]
    if agent.get("adapter"):
        return str(agent["adapter"]).partition(":")[0]
    chain: Sequence[str] = agent.get("agents") or ()
    if chain:
        return str(chain[0]).partition(":")[0]
    command: Sequence[str] = agent.get("command") or ()
    return str(command[0]).rpartition("/")[2] if command else ""
