"""Makes the assignment of a lifecycle, where all machines' records are: at the coordinator.

What its work builds on is resolved to commits, and these are put where the worker can fetch them:
base and joined work may be on no branch there. Must not decide which worker it is for.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from lifecycle.admission.budgets import Budgets
from lifecycle.base_commits import needs
from lifecycle.machine.states import AgentState, BackingOff, Verifying
from lifecycle.plan import default_agent_id, plan_of
from lifecycle.projection import head_now
from lifecycle.record import EARLIER
from lifecycle.setup.plans import APPROVED
from lifecycle.setup.setup import SettingUp
from lifecycle.worker.assignment import Assignment, fitted, settings_for, travelling

if TYPE_CHECKING:
    from lifecycle.base_commits import StartingPoint
    from lifecycle.machine.budget import BudgetShare
    from lifecycle.services import MachineServices, SharedServices
    from lifecycle.worker.branch_travel import BranchTravel
    from lifecycle.working_copy import LocalCopy

MOST_OVER = 50
"""Agents that are named as over: each assignment names the newest."""


async def assignment_for(
    machine: MachineServices, travel: BranchTravel | None, local: LocalCopy, assignment_id: str
) -> Assignment:
    """Return an assignment as it may travel; `machine` is the coordinator's own.

    OutOfReachError where the remote does not take now what the work builds on.
    """
    shared = machine.shared
    await _note_approval(machine, travel, local)
    start, target = await _start(shared, travel, local)
    into = target or str(local.record.facts.get("base_branch") or "")
    wanted = needs(local.task.dependencies, local.record.work)
    work = {task: await shared.base_commits.work_of(task, into) for task in wanted}
    approved = {
        key: str(each["commit"]) for key, each in (await shared.store.all(APPROVED)).items()
    }
    if travel is not None:
        last = head_now(local.ledger[-1] if local.ledger else None, local.record)
        built_on = (start.commit or "", *start.merge) if start is not None else ()
        commits = dict.fromkeys((*built_on, *work.values(), *approved.values(), last))
        await travel.give(local.agent_id, filter(None, commits))
    return fitted(
        Assignment(
            assignment_id=assignment_id,
            copy=travelling(local),
            settings=settings_for(shared.settings(), shared.masker),
            completed=_told_of(shared, local, wanted),
            start=start,
            target=into,
            work={task: commit for task, commit in work.items() if commit},
            tasks=await _names(shared),
            over=await _over(shared),
            budgets=_budgets(shared, local),
            approved=approved,
        )
    )


async def _note_approval(
    machine: MachineServices, travel: BranchTravel | None, local: LocalCopy
) -> None:
    """Remember that a person lets a set-up use the network, for whichever worker comes next."""
    work = local.record.work
    verify = work.verify if isinstance(work, BackingOff) else work
    if isinstance(verify, Verifying) and verify.setup_approved and verify.head:
        if travel is not None:
            await travel.fetch(local.agent_id)
        await SettingUp(machine).approve(local, "", verify.head)


async def _start(
    shared: SharedServices, travel: BranchTravel | None, local: LocalCopy
) -> tuple[StartingPoint | None, str]:
    """Return where work starts that has not begun, by commit, and the branch that it goes into."""
    if local.record.facts.get("base_commit"):
        return None, ""
    start = await shared.base_commits.start_of(local.task)
    target = await shared.base_commits.target_of(local.task)
    if travel is None:
        return start, target
    commit, branch = await travel.starting_point(start.commit)
    return replace(start, commit=commit), branch or target


def _told_of(shared: SharedServices, local: LocalCopy, wanted: tuple[str, ...]) -> dict[str, str]:
    """Return the done tasks that this one depends on or was blocked on, with their titles."""
    words = (getattr(entry.event, "word", None) for entry in (*local.before, *local.recent))
    said = [name for word in words if word is not None for name in word.blocked_on]
    names = dict.fromkeys((*wanted, *said))
    return {name: shared.completed[name] for name in names if name in shared.completed}


async def _over(shared: SharedServices) -> tuple[str, ...]:
    """Return the agents whose work was accepted last, of which workers may have something left."""
    accepted = await shared.store.outlines((AgentState.ACCEPTED,))
    names = (each.agent_id for each in accepted if EARLIER not in each.agent_id)
    return tuple(islice(names, MOST_OVER))


def _budgets(shared: SharedServices, local: LocalCopy) -> tuple[BudgetShare, ...]:
    record = local.record
    budgets = Budgets.set_for(shared.settings(), local.task, plan_of(record))
    if budgets is None:
        return ()
    return shared.accounts.shares(record.agent_id, budgets, birth=record.birth)


async def _names(shared: SharedServices) -> dict[str, str]:
    """Return the task that each name means: those of plans first, of which agents speak most."""
    planned = {default_agent_id(task): task for task in shared.plans}
    recorded = {each.agent_id: each.task_id for each in await shared.store.outlines()}
    return planned | {agent: task for agent, task in recorded.items() if task}
