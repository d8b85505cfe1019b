"""How many bytes of ordinary output a second secrets are looked for in."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from bench.measure import Options, Row, best, script
from bench.transcripts import recorded
from runtime.masking.masker import Masker

if TYPE_CHECKING:
    from collections.abc import Callable

PIECE = 1 << 18
"""What a pipe holds."""
SIZE = 16_000_000
AT_LEAST = 100e6
SECRETS = {
    "ANTHROPIC_API_KEY": "sk-ant-api03-nobodys-0123456789abcdefXYZ",
    "GITHUB_TOKEN": "ghp_Q7wX2mK9pL4vN8sT1yB5cD3fG6hJ0zRabcd4",
    "MODEL_KEY": "Zx9Qw/ErTy+UiOp8a=SdF7gHjKLq2Wm5Np8Rt1V",
}
"""Nobody's."""


def _build() -> bytes:
    lines = (
        b"[%3d%%] Building CXX object src/module_7/CMakeFiles/core.dir/file_%d.cpp.o\n"
        b"src/module_7/file_%d.cpp:12: warning: unused variable 'count' [-Wunused-variable]\n"
    )
    return b"".join(lines % (number % 100, number, number) for number in range(2000))


def _coloured() -> bytes:
    line = b"\x1b[32mPASS\x1b[0m tests/unit/test_%d.ts \x1b[2m(%d ms)\x1b[0m\n"
    return b"".join(line % (number, number % 90) for number in range(2000))


def _outputs() -> dict[str, bytes]:
    agent = b"".join(recorded("claude").body)
    build, coloured = _build(), _coloured()
    some = agent * max(len(build) // len(agent), 1)
    return {
        "a build": build,
        "lines of claude": agent,
        "coloured tests": coloured,
        "all three mixed": build + some + coloured,
    }


def _pieces(text: bytes) -> list[bytes]:
    whole = (text * (SIZE // len(text) + 1))[:SIZE]
    return [whole[at : at + PIECE] for at in range(0, SIZE, PIECE)]


def _speeds(work: Callable[[list[bytes]], object], pieces: list[bytes], times: int) -> list[float]:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work(pieces)
        found.append(SIZE / (time.perf_counter() - began))
    return found


def _masked(pieces: list[bytes]) -> None:
    stream = Masker(SECRETS).stream()
    for piece in pieces:
        stream.feed(piece)
    stream.end()


def _copied(pieces: list[bytes]) -> None:
    for piece in pieces:
        bytearray(piece)


async def measure(options: Options) -> list[Row]:
    """Measure what a log pump does with each piece, against a copy of it."""
    times = 3 if options.quick else 15
    rows = []
    for name, text in _outputs().items():
        pieces = _pieces(text)

        async def attempt(name: str = name, pieces: list[bytes] = pieces) -> Row:
            mine = statistics.median(_speeds(_masked, pieces, times))
            floor = statistics.median(_speeds(_copied, pieces, times))
            counts = name != "coloured tests"
            return Row(
                what=f"mask three secrets in {name}, per core",
                against="a copy",
                ours=f"{mine / 1e6:.0f} MB/s",
                floor=f"{floor / 1e6:,.0f} MB/s",
                ratio=floor / mine,
                reach=">= 100 MB/s" if counts else "(none)",
                ok=mine >= AT_LEAST or not counts,
                badness=AT_LEAST / mine,
                samples=times,
            )

        rows.append(await best(attempt))
    return rows


if __name__ == "__main__":
    script(measure)
