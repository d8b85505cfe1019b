"""How long a runner whose loops rest stays for who decides in its pages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.approval.approvals import HeldValue
from orchestrator.control.approve_settings import REFUSED, id_of
from orchestrator.runner.page_stay import LAST_LOOK, PageStay

MOST = 600.0
HELD = HeldValue("loopwright.toml#verify", [], ["make test"], "agent-T001")


class Pages:
    """Pages that were used at an instant, and what waits in them."""

    stays = False

    def __init__(self, used_at: float | None, waiting: int) -> None:
        self.used_at, self.waiting = used_at, waiting

    async def decisions(self) -> int:
        return self.waiting

    async def run(self, *_: object) -> None:
        """Is never asked to."""


@pytest.mark.parametrize(
    ("used_at", "waiting", "held", "asked", "stays"),
    [
        (None, 3, False, False, False),
        (1000.0, 3, False, False, True),
        (1000.0 - MOST + 1, 3, False, False, True),
        (1000.0 - MOST, 3, False, False, False),
        (1000.0, 0, True, False, True),
        (1000.0 - LAST_LOOK, 0, "refused", False, False),
        (1000.0, 0, False, True, True),
        (1000.0 - LAST_LOOK + 1, 0, False, False, True),
        (1000.0 - LAST_LOOK, 0, False, False, False),
    ],
    ids=[
        "nobody came", "in use", "nearly too long", "too long", "a setting waits",
        "a setting is refused", "a request is carried out", "the last answer is read",
        "all is decided",
    ],
)  # fmt: skip
async def test_it_stays_while_something_waits_and_the_pages_are_in_use(
    used_at: float | None, waiting: int, *, held: bool | str, asked: bool, stays: bool
) -> None:
    told = list[str]()
    stay = PageStay(
        _engine(asked=asked, refused=held == "refused"),
        Pages(used_at, waiting),
        SimpleNamespace(held={HELD.cell: HELD} if held else {}),  # type: ignore[arg-type]  # all it reads
        told.append,
    )
    assert [await stay.wanted(), await stay.wanted()] == [stays, stays]
    in_words = stays and (waiting or held or asked)
    assert [line.partition(":")[0] for line in told] == (
        ["all loops rest, and decisions wait"] if in_words else []
    )


def _engine(*, asked: bool, refused: bool) -> Any:
    async def documents(collection: str) -> dict[str, Any]:
        return {id_of(HELD): {"by": "Ada"}} if refused and collection == REFUSED else {}

    settings = SimpleNamespace(stay_for_pages=MOST)
    shared = SimpleNamespace(
        clock=SimpleNamespace(now=lambda: 1000.0),
        settings=lambda: settings,
        store=SimpleNamespace(all=documents),
    )
    return SimpleNamespace(shared=shared, inbox=SimpleNamespace(handed={1} if asked else set()))
