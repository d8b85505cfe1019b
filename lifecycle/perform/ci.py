"""Asks CI, pull requests and other lifecycles; what they answer becomes a fact.

Asking is the truth; events of a provider are only taken as facts that come by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.errors import ProviderError
from ci.events import CIEvent, CIEventType, ReviewComment
from ci.interface import CIWatch, PullRequestState, TakesReplies, refuse_replies
from ci.issues import keeper_of
from ci.verdict import VerdictStatus
from lifecycle.base_commits import bring_work
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.events import Fault, PrFate
from lifecycle.machine.rules.blocks import waits_for_ci
from lifecycle.machine.rules.waits import OF_A_HEAD
from lifecycle.machine.states import About, AwaitingHuman, Blocked, PrPending, Suspended
from lifecycle.perform.blockers import look
from lifecycle.perform.pull_request_text import LONGEST_TEMPLATE, body_of, review_text, title_of
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci.events import Check
    from ci.interface import CIProvider, PullRequest
    from lifecycle.machine.effects import Effect
    from lifecycle.machine.events import Event
    from lifecycle.machine.states import State
    from lifecycle.services import MachineServices
    from lifecycle.working_copy import LocalCopy

GREEN = (CIEventType.BUILD_SUCCESS, CIEventType.PR_CHECKS_PASSED, CIEventType.PR_MERGED)
RED = (
    CIEventType.BUILD_FAILURE,
    CIEventType.PR_CHECKS_FAILED,
    CIEventType.PR_CLOSED,
    CIEventType.PR_CONFLICT,
)
FATES = {
    CIEventType.PR_MERGED: PrFate.MERGED,
    CIEventType.PR_CLOSED: PrFate.CLOSED,
    CIEventType.PR_CHECKS_FAILED: PrFate.CHECKS_FAILED,
    CIEventType.PR_CONFLICT: PrFate.CONFLICT,
}


TOLD_BYTES = 12 * 1024
"""Of a summary's 16 KiB, what failed checks or remarks may take together."""


def fact_from(
    local: LocalCopy, event: CIEvent, now: float, *, handed: bool = False
) -> Event | None:
    """Return what an event means to the lifecycle of its branch, as one fact; often none.

    `handed` are those of the library's caller.
    """
    number, details = event.pr_number, _details(event.details)
    if event.type in FATES and number is not None:
        return on.PullRequestMoved(
            at=now,
            fate=FATES[event.type],
            number=number,
            sha=event.sha,
            text=event.summary,
            excerpt=event.excerpt,
            url=event.pr_url or "",
            details=details,
            asked=event.of_others,
            earlier=local.had(event.sha),
            handed=handed,
        )
    if event.type in (*GREEN, *RED):
        return on.CiReported(
            at=now,
            type=str(event.type),
            green=event.type in GREEN,
            sha=event.sha,
            text=event.summary,
            excerpt=event.excerpt,
            url=event.url,
            details=details,
            earlier=local.had(event.sha),
            handed=handed,
        )
    if event.type is CIEventType.PR_CHANGES_REQUESTED and number is not None:
        return on.Reviewed(
            at=now,
            number=number,
            sha=event.sha,
            text=event.summary,
            url=event.pr_url or "",
            details=details,
            by_bots=event.by_bots,
        )
    return None


def watch_of(local: LocalCopy, state: State) -> CIWatch | None:
    """Return what of the outside a state waits for, as a provider that looks by itself needs it."""
    branch = str(local.record.facts.get("branch", ""))
    match state:
        case Blocked(head=head, since=since) if head and branch and waits_for_ci(state):
            return CIWatch(key=local.agent_id, branch=branch, sha=head, since=since)
        case (
            PrPending(number=number, head=head, since=since)
            | AwaitingHuman(
                about=About.CI_LIMIT | About.CONFLICT | About.PR_TIMEOUT,
                number=number,
                head=head,
                since=since,
            )
        ) if number is not None:
            return CIWatch(key=local.agent_id, branch=branch, sha=head, number=number, since=since)
        case _:
            return None


def _details(told: Iterable[Check | ReviewComment]) -> tuple[on.Detail, ...]:
    """Return failed checks or remarks, as far as a summary can hold them."""
    details: list[on.Detail] = []
    left = TOLD_BYTES
    for each in told:
        left -= len(each.text.encode())
        text = each.text if left >= 0 else "(left out here, there is too much of it)"
        key = each.id if isinstance(each, ReviewComment) else ""
        details.append(on.Detail(title=each.title, text=text, url=each.url, id=key))
    return tuple(details)


async def perform(machine: MachineServices, local: LocalCopy, effect: Effect) -> Event | None:
    """Carry out an order that concerns the outside world."""
    match effect:
        case do.PublishBranch(head=head):
            await _publish(machine, local, head)
            return None
        case do.LookAtBlockers() as order:
            return await look(machine.shared, local, order)
        case do.OpenPullRequest(url=url, summary=summary):
            return await _open_pull_request(machine, local, url, summary)
        case do.PostReplies() as order:
            await _post_replies(machine, local, order)
            return None
        case do.LookAtPullRequest(number=number):
            return await _look_at_pull_request(machine, local, number)
        case _:
            raise TypeError(f"nothing performs {type(effect).__name__}")


async def missed(ci: CIProvider, branch: str, since: float) -> tuple[CIEvent, ...]:
    """Return what CI told about a branch while nobody listened."""
    try:
        batch = await ci.events_since(0)
    except ProviderError:
        return ()
    return tuple(event for event in batch.events if event.branch == branch and event.at >= since)


async def _publish(machine: MachineServices, local: LocalCopy, head: str) -> None:
    branch = str(local.record.facts.get("branch", ""))
    if machine.shared.ci is not None and branch and head:
        try:
            await bring_work(machine.shared.store, local.record, machine.bring, machine.work_watch)
            await machine.shared.ci.pushed(branch, head)
        except (ProviderError, RuntimeFault):
            # The looks that follow will find out by themselves.
            return


async def _post_replies(machine: MachineServices, local: LocalCopy, order: do.PostReplies) -> None:
    ci: object = machine.shared.ci
    mask = machine.shared.masker.mask
    replies = {each.remark: mask(each.text) for each in order.replies}
    if not isinstance(ci, TakesReplies):
        refuse_replies(machine.shared.report, local.agent_id, replies)
        return
    branch = str(local.record.facts.get("branch", ""))
    try:
        await ci.reply(local.agent_id, branch, order.head, replies)
    except (ProviderError, RuntimeFault):
        # The provider posts them as soon as it can.
        return


async def _open_pull_request(
    machine: MachineServices, local: LocalCopy, url: str, summary: str
) -> Event:
    now = machine.shared.clock.now()
    if machine.shared.ci is None:
        text = "there is no CI provider that could know a pull request; configure one"
        return on.PullRequestUnknown(at=now, text=text, fault=Fault.ENVIRONMENT)
    facts = local.record.facts
    branch, base = str(facts.get("branch", "")), str(facts.get("base_branch", ""))
    try:
        await bring_work(machine.shared.store, local.record, machine.bring, machine.work_watch)
        found = await machine.shared.ci.pull_request(url) if url else None
        if found is None:
            found = await _adoptable(machine.shared.ci, local, branch)
        if found is None and await machine.branches.is_contained(branch, base):
            # It would count as merged at once, and the next attempt could say the same again.
            text = f"{branch} has no commit that is not in {base}: there is nothing to merge"
            return on.PullRequestUnknown(at=now, text=text, fault=Fault.USER)
        if found is None or (summary and _is_open_between(found, branch, base)):
            # One that is open stays, with the words of this attempt.
            found = await _create(machine, machine.shared.ci, local, branch, base, summary)
    except (ProviderError, RuntimeFault) as error:
        return on.PullRequestUnknown(at=now, text=str(error), fault=Fault.ENVIRONMENT)
    if found.branch != branch:
        text = f"pull request {found.url} is about {found.branch}, not about {branch}"
        return on.PullRequestUnknown(at=now, text=text, fault=Fault.USER)
    if base and found.base != base:
        text = f"pull request {found.url} goes into {found.base}, not into {base}"
        return on.PullRequestUnknown(at=now, text=text, fault=Fault.USER)
    return on.PullRequestOpened(at=now, number=found.number, url=found.url)


async def _adoptable(ci: CIProvider, local: LocalCopy, branch: str) -> PullRequest | None:
    found = await ci.find_pull_request(branch)
    return found if found is not None and _is_ours(found, local) else None


async def _create(  # noqa: PLR0913, PLR0917  # all that a pull request is made of
    machine: MachineServices, ci: CIProvider, local: LocalCopy, branch: str, base: str, summary: str
) -> PullRequest:
    template, path = "", machine.shared.settings().pull_request_template
    if path and base:
        history = machine.branches.history
        template = await history.text_of(base, path, LONGEST_TEMPLATE) or ""
    mask = machine.shared.masker.mask
    title = mask(title_of(local.task, summary))
    keeper = keeper_of(ci) if local.task.issue else None
    issue = keeper.issue_name(local.task.issue) if keeper is not None else ""
    work = local.record.work
    review = review_text(local.record.facts, work.head if isinstance(work, PrPending) else "")
    body = mask(body_of(local.task, summary, template, issue, review))
    return await ci.create_pull_request(branch=branch, base=base, title=title, body=body)


def _is_open_between(found: PullRequest, branch: str, base: str) -> bool:
    return (
        found.state is PullRequestState.OPEN
        and found.branch == branch
        and (not base or found.base == base)
    )


def _is_ours(found: PullRequest, local: LocalCopy) -> bool:
    """Tell whether it is what this wait is about: it may have met its fate before we noted it."""
    work = local.record.work
    waits = work.inner if isinstance(work, Suspended) else work
    return found.state is PullRequestState.OPEN or (
        isinstance(waits, PrPending) and found.created_at >= waits.since
    )


async def _look_at_pull_request(
    machine: MachineServices, local: LocalCopy, number: int
) -> Event | None:
    work = local.record.work
    inner = work.inner if isinstance(work, Suspended) else work
    head = inner.head if isinstance(inner, PrPending) else ""
    now = machine.shared.clock.now()
    if machine.shared.ci is None:
        return None
    try:
        found = await machine.shared.ci.pull_request(number)
        if found is None:
            text = f"the provider does not know pull request {number} any more"
            return on.PullRequestUnknown(at=now, text=text, fault=Fault.ENVIRONMENT)
        fate, text = _fate(found)
        if fate is None or (
            fate in OF_A_HEAD and machine.shared.ci.looks and found.head_sha != head
        ):
            # What a provider finds by itself about somebody else's head, it tells with more words.
            return None
        details: tuple[on.Detail, ...] = ()
        if fate is PrFate.CHECKS_FAILED:
            verdict = await machine.shared.ci.verdict(found.head_sha)
            text = verdict.summary or text
            details = _details(verdict.failed)
    except ProviderError as error:
        return on.PullRequestUnknown(at=now, text=str(error), fault=Fault.ENVIRONMENT)
    return on.PullRequestMoved(
        at=now,
        fate=fate,
        number=number,
        sha=found.head_sha,
        text=text,
        excerpt=found.apart_excerpt if fate is PrFate.CONFLICT else "",
        url=found.url,
        details=details,
        asked=True,
        earlier=local.had(found.head_sha),
    )


def _fate(found: PullRequest) -> tuple[PrFate | None, str]:
    if found.state is PullRequestState.MERGED:
        return PrFate.MERGED, f"pull request {found.number} was merged"
    if found.state is PullRequestState.CLOSED:
        return PrFate.CLOSED, f"pull request {found.number} was closed without being merged"
    if found.conflicts:
        return PrFate.CONFLICT, f"conflicts with {found.base} in {', '.join(found.conflicts[:5])}"
    if found.apart:
        return PrFate.CONFLICT, found.apart
    if found.checks is VerdictStatus.RED:
        return PrFate.CHECKS_FAILED, f"checks of pull request {found.number} are red"
    return None, ""
