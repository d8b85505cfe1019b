"""Whatever people decide, in whatever order: what the base holds was wanted, and is green."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.fuzzing import examples
from tests.lifecycle.judging.merging import Deed, Kind, Piece, Town, Verb

KINDS: tuple[Kind, ...] = ("own", "same", "same", "rename", "use", "use")
VERBS: tuple[Verb, ...] = (*("accept",) * 6, "reject", "along")
FEW = settings(
    max_examples=examples(1), deadline=None, phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@st.composite
def plans(draw: st.DrawFn) -> list[Piece]:
    pieces = []
    for number in range(draw(st.integers(2, 4))):
        earlier = st.integers(0, max(0, number - 1))
        needs = draw(st.frozensets(earlier, max_size=2)) if number else frozenset()
        auto = draw(st.sampled_from((False, False, True)))
        pieces.append(Piece(draw(st.sampled_from(KINDS)), needs, auto))
    return pieces


DEEDS = st.lists(st.builds(Deed, st.sampled_from(VERBS), st.integers(0, 3)), min_size=4, max_size=8)


def _piece(kind: Kind, *needs: int, auto: bool = False) -> Piece:
    return Piece(kind, frozenset(needs), auto)


BOTH = [Deed("accept", 0), Deed("accept", 1)]


@FEW
@given(plans(), DEEDS)
@example([_piece("rename"), _piece("use")], BOTH)
@example([_piece("same"), _piece("same")], BOTH)
@example([_piece("own"), _piece("own", 0)], [Deed("reject", 0), Deed("accept", 1)])
@example([_piece("own"), _piece("own", 0, auto=True)], [Deed("accept", 1), Deed("accept", 0)])
def test_nothing_unwanted_or_red_comes_into_the_base_and_nothing_wanted_stays_out(
    pieces: list[Piece], deeds: list[Deed]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        town = Town(Path(folder))
        asyncio.run(_live(town, pieces, deeds))


async def _live(town: Town, pieces: list[Piece], deeds: list[Deed]) -> None:
    await town.live(pieces, deeds)
    await town.judge(pieces)
