"""Says what is missing that a worker takes a lifecycle: one that is up, its label, its program.

Pure: who is known and who asks for work is given. Must not decide what becomes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.terminal.text import instant

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lifecycle.store.rows.workers import WorkerRow

BEGIN = "`loopwright worker --name NAME{label}`"
_NAMED = 5


def missing(  # noqa: PLR0913  # all but three by name
    known: Sequence[WorkerRow],
    asking: Collection[str],
    present: float,
    *,
    agent_id: str = "",
    label: str = "",
    programs: Sequence[str] = (),
) -> str:
    """Say why no worker takes what needs this label and one of these programs; "" where one may.

    `known` are the workers that the coordinator hears of, `asking` the names of those that ask the
    server for such work, heard of or not.
    """
    labelled = [each for each in known if not label or label in each.labels]
    away = {each.name for each in known if each.draining or each.is_silent(present)}
    up = {each.name for each in labelled} | set(asking)
    fit = sorted(up - away)
    if not fit:
        return _nobody(labelled, label, present)
    refused = f"refused {agent_id}: "
    whys = {
        each.name: lack.removeprefix(refused)
        for each in known
        for lack in each.lacks
        if lack.startswith(refused)
    }
    if whys.keys() >= set(fit):
        return f"every worker refuses it: {_some([f'{name}: {whys[name]}' for name in fit])}"
    told = {each.name: each.programs for each in known}
    lack = [name for name in fit if told.get(name) and not set(programs) & set(told[name])]
    if not programs or lack != fit:
        return ""
    wanted = " or ".join(programs)
    return (
        f"no worker has the agent program {wanted} (not there: {_some(lack)}): install it there "
        "and begin the worker again, or begin one that has it"
    )


def _nobody(labelled: Sequence[WorkerRow], label: str, present: float) -> str:
    which = f" with the label {label}" if label else ""
    last = [
        f"{each.name} takes no new work"
        if each.draining
        else f"{each.name} was last heard of at {instant(each.seen_at, present)}"
        for each in labelled
    ]
    begin = BEGIN.format(label=f" --label {label}" if label else "")
    return (
        f"no worker{which} is up{f' ({_some(last)})' if last else ''}: begin one with {begin} in a "
        "clone of this repository"
    )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
