"""The webhooks that arrived: lists, one of them with why it matched nothing, and the senders.

Must not act on a delivery: that is the runner's business (`ci.webhooks.dispatcher`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, cast

from ci.forge_registry import SENDERS, secret_variable
from ci.webhook_delivery import DeliveryState, Hint
from lifecycle.machine.states import Blocked, PrPending, Suspended
from lifecycle.mask_values import masked
from lifecycle.state_words import spelled, word_on
from orchestrator.control.webhooks import body_text
from orchestrator.web.models import DeliveriesForm, DeliveryForm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci.webhook_delivery import Delivery
    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle
    from orchestrator.runner.server_interface import RunnerPort

MOST_BODY = 64 * 1024
"""Characters of a body that are shown."""
MOST_WAITS = 20
"""Lifecycles named beside a delivery that matched none."""
_RESULT = {
    DeliveryState.MATCHED: "It concerned something that waited.",
    DeliveryState.RECEIVED: "It is stored and not worked on yet.",
    DeliveryState.IGNORED: "It was left alone on purpose.",
    DeliveryState.BROKEN: "Its signature holds, but it cannot be read.",
}


class HintForm(TypedDict):
    """What a delivery says that it is about."""

    repo: str
    branch: str
    sha: str
    numbers: list[int]
    """of pull requests"""


class CompareForm(TypedDict):
    """A lifecycle that a delivery was compared with."""

    agent_id: str
    state: str
    branch: str
    commit: str
    number: int | None
    """of its pull request"""
    waits: bool
    """whether it waits for a forge or CI at the moment"""


class WholeDeliveryForm(DeliveryForm):
    """A webhook request that was received, whole."""

    settled_at: float | None
    headers: dict[str, str]
    """those that are kept: never a signature, a token or a cookie"""
    hint: HintForm | None
    size: int
    """bytes of the body as it is stored"""
    body: str
    """at most 65,536 characters of it; secrets are masked"""
    cut: bool
    why: str
    """why it is in this state, in sentences"""
    compared: list[CompareForm]
    """of one that matched nothing: the lifecycles that wait, and those on its branch"""


class SenderForm(TypedDict):
    """Who may send webhooks."""

    name: str
    path: str
    secret_variable: str
    secret_set: bool
    """without a secret all its requests are refused"""
    count: int
    last_at: float | None


class WebhooksForm(TypedDict):
    """Counts of what was received, and the senders."""

    by_state: dict[str, int]
    senders: list[SenderForm]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Which deliveries a page holds."""

    state: DeliveryState | None = None
    provider: str | None = None
    cursor: int | None = None
    limit: int = 50


async def page(runner: RunnerPort, which: DeliveryFilter) -> DeliveriesForm:
    """Return a page, the newest first."""
    found = await runner.store.deliveries.list(
        state=which.state, provider=which.provider, before=which.cursor, limit=which.limit
    )
    items = [_form(number, each) for number, each in found]
    more = items[-1]["cursor"] if len(items) == which.limit else None
    return {"items": items, "next": more}


async def one(runner: RunnerPort, number: int) -> WholeDeliveryForm | None:
    """Return one delivery, whole."""
    found = await runner.store.deliveries.at(number)
    if found is None:
        return None
    body = runner.engine.shared.masker.mask(body_text(found))
    compared = await _compared(runner, found)
    told = {
        **_form(number, masked(found, runner.engine.shared.masker)),
        "size": len(found.body),
        "body": body[:MOST_BODY],
        "cut": len(body) > MOST_BODY,
        "why": _why(found, compared, runner.settings().providers),
        "compared": compared,
    }
    return cast("WholeDeliveryForm", told)


async def senders(runner: RunnerPort) -> WebhooksForm:
    """Return how many there are in each state, and the last one of each sender."""
    by_state = dict.fromkeys(map(str, DeliveryState), 0)
    of_sender = dict.fromkeys(SENDERS, 0)
    last: dict[str, float] = {}
    for who, state, many, at in await runner.store.deliveries.counts():
        by_state[state] += many
        of_sender[who] = of_sender.get(who, 0) + many
        last[who] = max(at, last.get(who, 0.0))
    receiver = runner.receiver
    return {
        "by_state": by_state,
        "senders": [
            {
                "name": name,
                "path": f"/hooks/{name}",
                "secret_variable": secret_variable(name),
                "secret_set": receiver is not None and receiver.has_secret(name),
                "count": count,
                "last_at": last.get(name),
            }
            for name, count in of_sender.items()
            if name in SENDERS
        ],
    }


def _form(number: int, delivery: Delivery) -> DeliveryForm:
    told = {"cursor": number, **delivery.model_dump(mode="json", exclude={"body"})}
    return cast("DeliveryForm", told)


async def _compared(runner: RunnerPort, delivery: Delivery) -> list[CompareForm]:
    if delivery.state is not DeliveryState.UNMATCHED:
        return []
    hint = delivery.hint or Hint()
    rows = [_compare(each) for each in await runner.store.unfinished()]
    near = [row for row in rows if row["waits"] or _same_branch(row, hint)]
    near.sort(key=lambda row: (not _same_branch(row, hint), not row["waits"]))
    return near[:MOST_WAITS]


def _same_branch(row: CompareForm, hint: Hint) -> bool:
    return bool(hint.branch) and row["branch"] == hint.branch


def _compare(record: AgentLifecycle) -> CompareForm:
    work = record.work.inner if isinstance(record.work, Suspended) else record.work
    return {
        "agent_id": record.agent_id,
        "state": spelled(word_on(record)),
        "branch": str(record.facts.get("branch") or ""),
        "commit": str(getattr(work, "head", "") or ""),
        "number": _number(work),
        "waits": isinstance(work, (PrPending, Blocked)),
    }


def _number(work: State | None) -> int | None:
    return work.number if isinstance(work, PrPending) else None


def _why(delivery: Delivery, compared: list[CompareForm], providers: Sequence[str]) -> str:
    """Say why a delivery is in its state."""
    if delivery.state is not DeliveryState.UNMATCHED:
        outcome = f" {_sentence(delivery.outcome)}" if delivery.outcome else ""
        return f"{_RESULT[delivery.state]}{outcome}"
    hint = delivery.hint or Hint()
    about = _about(hint)
    said = [
        f"It is about {about}." if about else "It names no branch, commit or pull request.",
        *(_near(row, hint) for row in compared if _same_branch(row, hint)),
    ]
    waiting = sum(row["waits"] for row in compared)
    if waiting and delivery.provider not in providers:
        said.append(
            f"{delivery.provider} is not in the setting `providers` ({', '.join(providers)}), so "
            "nothing waits for what it says."
        )
    if waiting and not any(row["waits"] and _same_branch(row, hint) for row in compared):
        what = "lifecycle waits" if waiting == 1 else "lifecycles wait"
        said.append(f"{waiting} {what} outside, for other commits.")
    elif not waiting:
        said.append("No lifecycle waits for a forge or CI.")
    said.append("If one waits for it later, it is looked at then; it is kept for 90 days.")
    return " ".join(said)


def _near(row: CompareForm, hint: Hint) -> str:
    agent, state = row["agent_id"], row["state"].replace("-", " ")
    if not row["waits"]:
        return f"The branch is that of {agent}, which is {state} and waits for no check."
    if hint.sha and row["commit"] and row["commit"] != hint.sha:
        return f"{agent} waits on this branch for another commit: {row['commit'][:7]}."
    return f"{agent} waits on this branch."


def _about(hint: Hint) -> str:
    parts = [f"commit {hint.sha[:7]}"] if hint.sha else []
    parts += [f"branch {hint.branch}"] if hint.branch else []
    parts += [f"pull request {number}" for number in hint.numbers]
    where = f" of {hint.repo}" if hint.repo else ""
    return f"{', '.join(parts)}{where}" if parts else ""


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
