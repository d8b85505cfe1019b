"""What an agent does in one attempt, step by step, for each kind of deed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.lifecycle.night_script import Deed

Steps = list[tuple[str, Any]]
TOO_MANY = 1100
"""Events; more than these nights allow."""
ENDS: dict[str, Steps] = {
    "silent": [("end", None), ("exit", 0)],
    "linger": [("end", None), ("stay", None)],
    "hang": [("stay", None)],
    "crash": [("signal", 11)],
    "flood": [("flood", TOO_MANY), ("stay", None)],
    "context": [("fail", "context_overflow"), ("exit", 1)],
    "error": [("exit", 1)],
}
WHOM = {"block_ci": "ci", "block_person": "person", "block_for_ever": "nobody"}


def steps_of(deed: Deed, attempt: int) -> Steps:
    """Return everything that it does after it began."""
    steps: Steps = []
    for number, tokens in enumerate(deed.steps):
        steps += [("wait", deed.pace), ("work", (number, tokens))]
    if deed.commits:
        steps.append(("commit", "x.txt"))
    which = 0 if deed.same_words else attempt
    return [*steps, *(ENDS.get(deed.kind) or _finishes(deed.kind, which) or _talks(deed, which))]


def _finishes(kind: str, which: int) -> Steps:
    """Say that it is done, be it true or not."""
    done = ("say", {"type": "task_complete", "summary": f"done in {which}"})
    match kind:
        case "complete":
            return [("gate", 0), ("end", None), done, ("exit", 0)]
        case "complete_late":
            return [("gate", 0), done, ("wait", 5.0), ("end", None), ("exit", 0)]
        case "lie":
            return [("gate", 1), ("end", None), done, ("exit", 0)]
        case "dirty":
            return [("gate", 0), ("dirty", f"y{which}.txt"), done, ("exit", 0)]
        case _:
            return []


def _talks(deed: Deed, which: int) -> Steps:
    if deed.kind == "pr":
        return [("say", {"type": "pr_created", "summary": f"pull {which}"}), ("exit", 0)]
    if deed.kind in WHOM:
        whom = WHOM[deed.kind]
        word = {"type": "blocked", "blocked_on": [f"{whom}-{which}"], "summary": whom}
        return [("say", word), ("exit", 0)]
    word = {"type": "question", "question": f"which {which}?"}
    return [("end", None), ("say", word), ("exit", 0)]
