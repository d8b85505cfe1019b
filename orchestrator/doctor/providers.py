"""What `doctor` finds out about the outside world: the forge, the token, the webhook secrets.

Asks the forge what the token allows, and nothing else. Changes nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ci.errors import CIError
from ci.forge.outage import renamed
from ci.forge.protocol import BranchRules
from ci.forge_registry import SENDERS, secret_variable
from lifecycle.errors import PlanError
from orchestrator.config.plans import find_plan, load_plan
from orchestrator.doctor.machine import BAD, OK, WARN, Diagnosis
from orchestrator.errors import ConfigError
from orchestrator.runner.providers import ProviderInputs, make_providers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci.forge.protocol import Access
    from orchestrator.runner.providers import Providers

PATIENCE = 15.0
"""Seconds for the forge to answer."""


class _Told(NamedTuple):
    """What the forge answered."""

    access: Access
    branch: str = ""
    rules: BranchRules = BranchRules()
    issues: str = ""
    """Why issues cannot be changed."""


def providers(inputs: ProviderInputs) -> Iterator[Diagnosis]:
    """Diagnosis who judges commits and keeps pull requests."""
    settings = inputs.settings()
    named = ", ".join(settings.providers) or "local"
    try:
        made = make_providers(inputs)
    except (ConfigError, CIError) as problem:
        what, _, mend = str(problem).partition(": ")
        yield Diagnosis(BAD, "providers", f"{named}; {what}", mend)
        return
    if made.forge is None:
        judged = settings.test_command or "nothing: no test_command is set"
        yield Diagnosis(OK, "providers", f"{named}; each commit is judged by {judged}")
    else:
        yield from _forge(made, auto_merge=settings.auto_merge, issues=_uses_issues(inputs))
    yield from _secrets(inputs)


def _uses_issues(inputs: ProviderInputs) -> bool:
    """Tell whether anything is done to issues: the settings ask for it, or a plan names one."""
    settings = inputs.settings()
    if settings.issue_labels_working or settings.issue_close:
        return True
    try:
        path = find_plan(inputs.repo) if settings.issue_comment else None
        return path is not None and any(task.issue for task in load_plan(path).tasks)
    except PlanError:
        return False  # what is wrong with the plan is told where agents are checked


def _forge(made: Providers, *, auto_merge: bool, issues: bool) -> Iterator[Diagnosis]:
    forge = made.forge
    if forge is None:
        return
    try:
        told = asyncio.run(_ask(made, issues=issues))
    except (CIError, TimeoutError) as problem:
        text = str(problem) or f"{forge.place} did not answer within {PATIENCE:g} s"
        what, _, mend = text.partition(": ")
        yield Diagnosis(BAD, "forge", f"{forge.name} at {forge.place}: {what}", mend)
        return
    access = told.access
    found = f"{forge.place} as {access.who}, signed in by {made.signed_in_by}"
    if access.renamed_to:
        what, _, mend = renamed(forge.place, access.renamed_to).partition(": ")
        yield Diagnosis(BAD, "forge", what, mend)
    if access.can_write:
        yield Diagnosis(OK, "forge", found)
    else:
        # Without the right to push nothing that an agent does comes to the forge.
        yield Diagnosis(BAD, "forge", found, access.problem or "the token may not write there")
    if access.can_read:
        yield _rules(told.branch, told.rules, queue=forge.queue, auto_merge=auto_merge)
    if told.issues:
        what, _, mend = told.issues.partition(": ")
        found = f"those that tasks name at {forge.place} are neither commented on nor labelled"
        yield Diagnosis(WARN, "issues", f"{found}: {what}", mend)


def _rules(branch: str, rules: BranchRules, *, queue: str, auto_merge: bool) -> Diagnosis:
    """Say what the branch demands before a merge, which otherwise shows at the first one."""
    approvals = rules.required_approvals
    demands = [
        f"the checks {', '.join(rules.required_checks)}" if rules.required_checks else "",
        f"{approvals} approval{'s' * (approvals > 1)}" if approvals else "",
        "the newest commit of the branch" if rules.up_to_date else "",
        f"its {queue}" if rules.queue else "",
        *rules.demands,
    ]
    told = ", ".join(filter(None, demands)) or "nothing that we are told of"
    found = f"to be merged into {branch} needs {told}"
    if rules.may_merge is False and auto_merge:
        mend = f"let the token's user merge into {branch}, or set auto_merge = false"
        return Diagnosis(WARN, "branch rules", f"{found}; the token may not merge", mend)
    return Diagnosis(OK, "branch rules", found)


async def _ask(made: Providers, *, issues: bool) -> _Told:
    if made.forge is None:
        raise ConfigError("there is no forge to ask")
    try:
        async with asyncio.timeout(PATIENCE):
            access = await made.forge.access()
            if not access.can_read:
                return _Told(access)
            branch = await made.forge.default_branch()
            rules, kept = await made.forge.branch_rules(branch), made.forge.issues
            against = await kept.hindrance() if kept is not None and issues else ""
            return _Told(access, branch, rules, against)
    finally:
        await made.forge.aclose()


def _secrets(inputs: ProviderInputs) -> Iterator[Diagnosis]:
    for name in inputs.settings().providers:
        if name in SENDERS:
            variable = secret_variable(name)
            if inputs.environ.get(variable):
                yield Diagnosis(OK, "webhooks", f"{variable} is set")
            else:
                yield Diagnosis(
                    WARN,
                    "webhooks",
                    f"{variable} is not set, so hooks of {name} are refused",
                    "polling works without; see docs/how-to/webhooks.md to be woken at once",
                )
