"""How `loopwright pr` reaches the pull requests, on this machine or at a forge.

A live runner is asked through the store, so that its loops hear of it at once; on a
stopped repository the provider is started here for a moment. What may be merged is its business.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from ci.errors import CIError
from ci.forge.counting import counting
from ci.interface import USUAL_TERMS, MergeTerms, PullRequest
from ci.local.ledger import BUILDS, PULLS
from ci.local.records import Build, PullRecord
from ci.verdict import judge, judge_checks
from lifecycle.errors import LifecycleError
from lifecycle.machine.runner_orders import PullRequestOrder
from lifecycle.mask_values import masked
from lifecycle.paths import Paths
from orchestrator import wiring
from orchestrator.control.merge_preview import OURS, with_along
from orchestrator.control.open_store import store_of
from orchestrator.control.requests import DONE, LOOK_EVERY, answer_to, now
from orchestrator.runner.providers import make_providers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from ci.forge.merge_rules import Rules
    from ci.forge.protocol import Forge, ForgePull
    from ci.interface import CIProvider
    from ci.verdict import VerdictStatus
    from lifecycle.record import Reply
    from orchestrator.runner.providers import ProviderInputs
    from runtime.masking.masker import Masker

Action = Literal["merge", "close"]
UNANSWERED = "nothing was changed. Is it `loopwright run` or `up`?"


def server(
    provider: CIProvider, tell: Callable[[str], None], masker: Masker
) -> Callable[[PullRequestOrder], Awaitable[tuple[str, str]]]:
    """Return what serves the orders that people leave for a live runner."""

    async def serve(order: PullRequestOrder) -> tuple[str, str]:
        reply = masked(await carry_out(provider, order), masker)
        tell(f"{reply.problem or reply.text} (asked for by {order.by or 'a person'})")
        return reply.problem, reply.text

    return serve


async def carry_out(provider: CIProvider, order: PullRequestOrder) -> Reply:
    """Merge or close a pull request, or say why not."""
    number, problem, text = order.number, "", ""
    try:
        if order.action == "merge":
            terms = MergeTerms(along=order.along, verify=order.verify)
            result = await provider.merge(number, terms=terms)
            while result.pending:
                await asyncio.sleep(LOOK_EVERY)
                result = await provider.merge(number, terms=terms)
            text = f"pull request {number} is merged as {(result.commit or '')[:7]}"
            problem = "" if result.merged else result.reason or "it was not merged"
        else:
            closed = await provider.close(number)
            text = f"pull request {number} is {closed.state}"
            problem = "" if closed.state == "closed" else text
    except CIError as refusal:
        problem = str(refusal)
    return replace(DONE, problem=problem) if problem else replace(DONE, text=text)


async def order(  # noqa: PLR0913  # all by name but what is wanted
    inputs: ProviderInputs,
    action: Action,
    number: int,
    *,
    by: str,
    wait_s: float = 30.0,
    terms: MergeTerms = USUAL_TERMS,
) -> Reply:
    """Have a pull request merged or closed, by the live runner or here."""
    asked = 0
    wanted = PullRequestOrder(
        at=now(),
        by=inputs.masker.mask(by),
        action=action,
        number=number,
        along=terms.along,
        verify=terms.verify,
    )
    async with store_of(inputs.repo) as store:

        async def ask() -> int:
            nonlocal asked
            asked = await store.ask(None, wanted)
            return asked

        async def here(_request: int) -> Reply:
            return await _here(inputs, wanted)

        try:
            return await answer_to(
                store, inputs.repo, ask, here, wait_s=wait_s, unanswered=UNANSWERED
            )
        finally:
            if asked:
                # Nobody waits any more; one that was answered stays as it is.
                await store.answer_request(asked)


async def _here(inputs: ProviderInputs, wanted: PullRequestOrder) -> Reply:
    providers = make_providers(inputs)
    loop = wiring.build(
        inputs.repo,
        settings=inputs.settings,
        who=f"{wanted.verb} {wanted.number}",
        provider=providers.provider,
        remote=providers.remote,
    )
    async with loop.opened():
        return masked(await carry_out(providers.provider, wanted), inputs.masker)


async def listed(inputs: ProviderInputs) -> list[PullRequest]:
    """Return the pull requests; beside a live runner as well.

    Those on this machine are all told, as last recorded; at a forge the open ones of our agents.
    """
    providers = make_providers(inputs)
    if providers.forge is not None:
        pulls = await _listed_there(providers.forge, inputs.rules()())
    else:
        pulls = await _listed_here(inputs.repo, checked=bool(inputs.settings().test_command))
    if Paths.of(inputs.repo).database.exists():
        async with store_of(inputs.repo) as store:
            pulls = await with_along(inputs.repo, store, pulls)
    return masked(pulls, inputs.masker)


async def _listed_there(forge: Forge, rules: Rules) -> list[PullRequest]:
    try:
        ours = [pull for pull in await forge.open_pulls() if pull.branch.startswith(OURS)]
        branches = {base: await forge.branch_rules(base) for base in {pull.base for pull in ours}}

        async def status(pull: ForgePull) -> VerdictStatus:
            found = await forge.checks(pull.head_sha)
            counted = counting(found, branches[pull.base], rules, awaits=True)
            return judge_checks(pull.head_sha, counted).status

        return [
            PullRequest(
                checks=await status(pull),
                conflicts=("(see there)",) if pull.mergeable is False else (),
                **pull.model_dump(include=set(PullRequest.model_fields)),
            )
            for pull in sorted(ours, key=lambda pull: pull.number)
        ]
    finally:
        await forge.aclose()


async def _listed_here(repo: Path, *, checked: bool) -> list[PullRequest]:
    async with store_of(repo) as store:
        pulls = [_read(PullRecord, body) for body in (await store.all(PULLS)).values()]
        builds = [_read(Build, body) for body in (await store.all(BUILDS)).values()]
    verdicts = {}
    if checked:
        verdicts = {build.sha: build.verdict() for build in sorted(builds, key=lambda b: b.number)}
    return [
        pull.seen_with(verdicts.get(pull.head_sha) or judge(pull.head_sha))
        for pull in sorted(pulls, key=lambda pull: pull.number)
    ]


def _read(form: Any, body: dict[str, Any]) -> Any:
    try:
        return form.model_validate(body)
    except ValueError as problem:
        raise LifecycleError(
            f"a record of the local provider cannot be read: {problem}"
        ) from problem
