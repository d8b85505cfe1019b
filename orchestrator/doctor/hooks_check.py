"""What `loopwright hooks check` finds: the forge's hooks, and which deliveries did not come here.

Asks the forge and reads the records; changes nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ci.errors import CIError, ForbiddenError
from ci.forge.hooks import KnownHooks, KnowsHooks
from ci.forge_registry import secret_variable
from orchestrator.config.settings import load_settings
from orchestrator.control.open_store import store_of
from orchestrator.control.webhooks import HooksError
from orchestrator.runner.providers import ProviderInputs, make_providers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ci.forge.hooks import ForgeHook, SentDelivery
    from ci.forge.protocol import Forge
    from ci.webhook_delivery import Deliveries

NAMED = 5
"""Of the deliveries that did not come, so many are named."""


@dataclass(frozen=True, slots=True)
class CheckedHook:
    """One hook, compared with what came."""

    hook: ForgeHook
    missing: tuple[SentDelivery, ...]
    """What the forge has sent and we do not have."""
    elsewhere: bool = False
    """It seems to be for another runner, which has an address of its own."""

    @property
    def came(self) -> int:
        """How many of its deliveries are here."""
        return len(self.hook.deliveries or ()) - len(self.missing)

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.elsewhere or (self.hook.active and not self.missing)


@dataclass(frozen=True, slots=True)
class HooksReport:
    """What was found."""

    forge: str
    place: str
    has_secret: bool
    last_at: float | None
    """When a delivery of this forge came last."""
    hooks: tuple[CheckedHook, ...]
    unasked: tuple[str, ...] = ()
    """What else may have a hook for us, and why it could not be asked."""


async def check(repo: Path, *, environ: Mapping[str, str], now: Callable[[], float]) -> HooksReport:
    """Ask the forge that keeps the pull requests, and compare."""
    settings = load_settings(repo, environ=environ)
    made = make_providers(ProviderInputs(repo, lambda: settings, environ, now))
    forge = made.forge
    if forge is None:
        raise HooksError(
            "there is no forge to ask for its hooks: name one (providers = ...) first; `hooks "
            "list` shows what came from elsewhere"
        )
    try:
        known = await _asked(forge)
    finally:
        await forge.aclose()
    async with store_of(repo) as store:
        newest = await store.deliveries.list(provider=forge.name, limit=1)
        return HooksReport(
            forge=forge.name,
            place=forge.place,
            has_secret=bool(made.secrets_of(forge.name)),
            last_at=newest[0][1].received_at if newest else None,
            hooks=_for_us(
                [await _compared(store.deliveries, forge.name, hook) for hook in known.hooks]
            ),
            unasked=known.unasked,
        )


async def _asked(forge: Forge) -> KnownHooks:
    if not isinstance(forge, KnowsHooks):
        return KnownHooks()
    try:
        return await forge.hooks()
    except ForbiddenError as refused:
        raise HooksError(
            f"the token may not see the hooks of {forge.place}: give it that right (GitHub: "
            "admin:repo_hook, or Webhooks to read; GitLab: the role Maintainer; Gitea: "
            f"administrator of the repository); {refused}"
        ) from refused
    except CIError as problem:
        text = f"the hooks of {forge.place} could not be asked for: {problem}"
        raise HooksError(text) from problem


async def _compared(deliveries: Deliveries, forge: str, hook: ForgeHook) -> CheckedHook:
    missing = [
        sent
        for sent in hook.deliveries or ()
        if sent.id and await deliveries.get(f"{forge}:{sent.id}") is None
    ]
    return CheckedHook(hook, tuple(missing))


def _for_us(checked: Sequence[CheckedHook]) -> tuple[CheckedHook, ...]:
    """Tell apart those for another runner: nothing came of them, but of one with another address.

    Several runners may have hooks in one organisation, and nobody knows under which address this
    one is reached.
    """
    ours = {each.hook.url for each in checked if each.came}
    return tuple(
        replace(each, elsewhere=bool(ours and each.missing) and each.hook.url not in ours)
        for each in checked
    )


def is_well(report: HooksReport) -> bool:
    """Return whether webhooks come as the forge sends them."""
    return report.has_secret and bool(report.hooks) and all(each.is_well for each in report.hooks)


def lines(report: HooksReport, *, when: Callable[[float], str]) -> Iterator[str]:
    """Say it for people."""
    if not report.has_secret:
        yield f"{secret_variable(report.forge)} is not set here, so all its hooks are refused"
    if not report.hooks:
        yield (
            f"{report.place} has no hook that ends in /hooks/{report.forge}: polling works "
            "without; see docs/how-to/webhooks.md"
        )
        for place in report.unasked:
            yield f"  there may be one that the token may not see, of {place}"
    for each in report.hooks:
        yield from _hook_lines(each, when)
    last = f"at {when(report.last_at)}" if report.last_at is not None else "never"
    yield f"a delivery of {report.forge} came here last: {last}"


def _hook_lines(checked: CheckedHook, when: Callable[[float], str]) -> Iterator[str]:
    hook, missing, came = checked.hook, checked.missing, checked.came
    state = "active" if hook.active else "switched off at the forge"
    if hook.deliveries is None:
        yield f"{hook.url} of {hook.of}: {state}; the forge does not tell its deliveries"
        return
    sent = len(hook.deliveries)
    if checked.elsewhere:
        yield (
            f"{hook.url} of {hook.of}: {state}; none of its last {sent} came here, so it seems to "
            "be for another runner"
        )
        return
    yield f"{hook.url} of {hook.of}: {state}; {came} of its last {sent} are here"
    for each in missing[:NAMED]:
        at = f" at {when(each.at)}" if each.at else ""
        yield f"  not here: {each.event}{at}, {each.id}, answered with {each.answer or 'nothing'}"
    if len(missing) > NAMED:
        yield f"  and {len(missing) - NAMED} more"


def form(report: HooksReport) -> dict[str, Any]:
    """Return it as JSON values."""
    return {
        **{name: value for name, value in asdict(report).items() if name != "hooks"},
        "hooks": [
            {
                **each.hook.model_dump(mode="json"),
                "elsewhere": each.elsewhere,
                "missing": [sent.model_dump(mode="json") for sent in each.missing],
            }
            for each in report.hooks
        ],
        "well": is_well(report),
    }
