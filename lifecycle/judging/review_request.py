"""What a reviewer reads of a commit: the task, the diff and what the verify commands printed.

Nothing of what the author says about its work is in it. Facts alone: the wording is the template's.
Must not start anything, nor decide what an answer means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lifecycle.errors import PlanError
from lifecycle.judging.opinion_form import CommitLines, shown_lines
from runtime.logs.files import tail

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lifecycle.services import MachineServices
    from lifecycle.working_copy import LocalCopy
    from runtime.git.diff_parsing import FileChange

DIFF_CHARACTERS = 200_000
"""Of the diff that a reviewer is shown; what is beyond it reads in its folder."""
MOST_LINES = 5000
"""Changed lines of one file from which they are left out."""
GATE_BYTES = 4000
"""Of the end of what each verify command printed."""
FILE_BYTES = 4 << 20
"""Size up to which a file is read to see whether a line exists."""
OPINION = "opinion"
"""The fact of a record that holds what a reviewer said last."""


class ReviewRequest(NamedTuple):
    """One commit to be reviewed, as it is told."""

    head: str
    base: str
    files: tuple[FileChange, ...]
    told: dict[str, Any]
    """By the names that the template uses."""

    async def lines(self, machine: MachineServices, named: Sequence[str]) -> CommitLines:
        """Return the lines that were shown, and the files beside them that findings name."""
        history = machine.branches.history
        texts = {name: await history.text_of(self.head, name, FILE_BYTES) for name in named}
        return CommitLines(shown_lines(self.files), texts)


async def request_of(
    machine: MachineServices, local: LocalCopy, attempt: int, head: str
) -> ReviewRequest:
    """Gather what is reviewed; PlanError where there is no commit."""
    if not head:
        raise PlanError("a second opinion is about a commit, and this folder is no git repository")
    base = await _base_of(machine, local, head)
    diff = machine.branches.diff
    listed = await diff.files(base, head) if base else ()
    whole = [file for file in listed if file.lines <= MOST_LINES and not file.binary]
    with_lines = {file.path: file for file in await diff.hunks(base, head, whole)}
    files = tuple(with_lines.get(file.path, file) for file in listed)
    shown, left_out = _diff(files)
    told = {
        "task": local.task.model_dump(mode="json"),
        "head": head,
        "base": base,
        "files": [{"path": each.path, "kind": each.kind} for each in files],
        "diff": shown,
        "left_out": left_out,
        "gates": list(_gates(machine, local, attempt)),
        "before": _before(local, head),
    }
    return ReviewRequest(head, base, files, told)


async def _base_of(machine: MachineServices, local: LocalCopy, head: str) -> str:
    """Return the commit since which the work is its own; what was merged in is none of it."""
    facts = local.record.facts
    began, into = str(facts.get("base_commit", "")), str(facts.get("base_branch", ""))
    if not began or not into:
        return began
    tips = (await machine.branches.head(into), await machine.branches.fetched(into))
    starts = await machine.branches.diff.taken_over(began, head, [tip for tip in tips if tip])
    return next((start for start in starts if start != began), began)


def _gates(machine: MachineServices, local: LocalCopy, attempt: int) -> Iterator[dict[str, str]]:
    for number, command in enumerate(machine.shared.settings().verify_of(local.task), 1):
        log = machine.paths.gate_log(local.agent_id, attempt, number)
        yield {"command": command, "output": tail(log, GATE_BYTES)}


def _before(local: LocalCopy, head: str) -> list[dict[str, Any]]:
    """Return the findings about an earlier commit, which this one may have resolved."""
    known = local.record.facts.get(OPINION) or {}
    found = known.get("findings") or ()
    return [dict(each) for each in found] if known.get("head") != head else []


def _diff(files: Sequence[FileChange]) -> tuple[str, list[str]]:
    """Return the diff with the numbers of its lines, and the files that are not all in it."""
    shown: list[str] = []
    left_out: list[str] = []
    room = DIFF_CHARACTERS
    for file in files:
        text = _file(file)
        if len(text) > room or (file.lines and not file.hunks):
            left_out.append(file.path)
            continue
        shown.append(text)
        room -= len(text)
    return "\n".join(shown), left_out


def _file(file: FileChange) -> str:
    renamed = f" from {file.old_path}" if file.old_path else ""
    mode = f", {file.mode}" if file.mode else ""
    lines = [f"=== {file.path} ({file.kind}{renamed}{mode}, +{file.added} -{file.removed})"]
    for hunk in file.hunks:
        lines.append(f"@@ {hunk.heading}".rstrip())
        lines += [f"{line.new or '':>6} {line.kind}{line.text}" for line in hunk.lines]
    return "\n".join(lines)
