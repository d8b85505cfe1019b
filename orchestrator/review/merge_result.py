"""What an accept would meet now: tried in the object store, moving no branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from lifecycle.machine.states import Completed
from orchestrator.control.merge_preview import form, standing
from orchestrator.review.evidence import AlongForm  # noqa: TC001  # hints are read at run time
from orchestrator.review.own_work import ReviewError
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lifecycle.record import AgentLifecycle
    from lifecycle.settings import Settings
    from lifecycle.store.sqlite.store import SqliteStore
    from runtime.branches import BranchManager

MARK = 7
"""Characters of a line that git puts around what both sides changed."""
MOST_OF_FILE = 1 << 20
"""Size of a file that is searched for the places in conflict."""
MOST_LINES = 40
WIDEST = 400


class ConflictPlaceForm(TypedDict):
    """A place that both sides changed, with its first and last line in the merged file."""

    first: int
    last: int
    base: list[str]
    """what the branch has there; at most 40 lines"""
    work: list[str]
    """what the work has there, alike"""
    left_out: int
    """lines of both sides that are not told"""


class ConflictForm(TypedDict):
    """A file that both sides changed in the same places."""

    path: str
    places: list[ConflictPlaceForm]
    """empty where it is not about lines: one side deleted it, or it is binary"""


class MergeForm(TypedDict):
    """What a merge of completed work would do now."""

    agent_id: str
    head: str
    into: str
    base: str
    """the commit of that branch"""
    would: str
    """merge, nothing (it is in there already), refuse or conflict"""
    why_not: str
    conflicts: list[ConflictForm]
    comes_along: list[AlongForm]
    verify: list[str]
    """commands that would judge the merged result first; empty if it equals what passed them"""


async def merge_form(  # noqa: PLR0913  # all but the first by name
    repo: Path,
    *,
    branches: BranchManager,
    store: SqliteStore,
    record: AgentLifecycle,
    settings: Settings,
    mask: Callable[[str], str],
) -> MergeForm:
    """Try it; `mask` takes secrets out of lines. ReviewError if there is nothing to merge."""
    work, into = record.work, str(record.facts.get("base_branch", ""))
    if not isinstance(work, Completed):
        raise ReviewError(f"{record.agent_id} has no completed work, so there is nothing to merge")
    told: MergeForm = {
        "agent_id": record.agent_id,
        "head": work.head,
        "into": into,
        "base": "",
        "would": "refuse",
        "why_not": "",
        "conflicts": [],
        "comes_along": [],
        "verify": [],
    }
    base = await branches.head(into) if into else None
    if not work.head or base is None:
        why_not = "it was started from no branch" if not into else f"there is no branch {into}"
        return {**told, "why_not": why_not}
    told["base"] = base
    stands = await standing(repo, store, record)
    if stands.merged_as:
        return {**told, "would": "nothing", "why_not": f"it is in {into} as {stands.merged_as}"}
    told["comes_along"] = [
        {"agent_id": each["agent_id"], "task_id": each["task_id"], "state": each["state"]}
        for each in form(stands.along)
    ]
    try:
        tree, conflicts = await branches.try_merge(work.head, base)
    except RuntimeFault as error:
        return {**told, "why_not": str(error)}
    if conflicts:
        found = [await _conflict(branches, tree, path, mask) for path in conflicts]
        why_not = f"both sides changed {', '.join(conflicts[:5])}"
        return {**told, "would": "conflict", "why_not": why_not, "conflicts": found}
    wanted = dict.fromkeys((*settings.verify, *(record.facts.get("task", {}).get("verify") or ())))
    same = work.passed and tree == await branches.history.tree_of(work.head)
    told["verify"] = [each for each in wanted if not (same and each in work.passed)]
    return {**told, "would": "merge"}


async def _conflict(
    branches: BranchManager, tree: str, path: str, mask: Callable[[str], str]
) -> ConflictForm:
    text = await branches.history.text_of(tree, path, MOST_OF_FILE) or ""
    return {"path": path, "places": list(_places(mask(text).splitlines()))}


def _places(lines: Sequence[str]) -> Iterator[ConflictPlaceForm]:
    begun, side = 0, ""
    sides: dict[str, list[str]] = {}
    for number, line in enumerate(lines, 1):
        mark = line[:MARK]
        if mark == "<" * MARK and not begun:
            begun, side, sides = number, "<", {"<": [], "|": [], "=": []}
        elif begun and mark == ">" * MARK:
            yield _place(begun, number, sides["<"], sides["="])
            begun = 0
        elif begun and mark in ("|" * MARK, "=" * MARK):
            side = mark[0]  # between `|` and `=` stands what both began with
        elif begun:
            sides[side].append(line[:WIDEST])


def _place(first: int, last: int, base: list[str], work: list[str]) -> ConflictPlaceForm:
    left_out = sum(max(len(each) - MOST_LINES, 0) for each in (base, work))
    return {
        "first": first,
        "last": last,
        "base": base[:MOST_LINES],
        "work": work[:MOST_LINES],
        "left_out": left_out,
    }
