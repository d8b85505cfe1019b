"""Puts an agent program through the cases, one after the other, in a throw-away folder.

Owns the order and the time keeping. What a case does and how it is judged is in `cases`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from orchestrator.conformance.cases import CASES
from orchestrator.conformance.verdict import ConformanceReport, Result
from orchestrator.conformance.workbench import Workbench

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from orchestrator.conformance.cases import ConformanceCase
    from orchestrator.conformance.subject import AgentUnderTest


def chosen(only: Collection[str] = ()) -> tuple[ConformanceCase, ...]:
    """Return the cases of these names, all when none is named, in their order."""
    return tuple(case for case in CASES if not only or case.name in only)


async def conduct(
    subject: AgentUnderTest,
    folder: Path,
    *,
    only: Collection[str] = (),
    tell: Callable[[Result], None] | None = None,
) -> ConformanceReport:
    """Put the program through the cases; `folder` is private, empty, and the caller's to remove.

    Each result is told as soon as it is there. Nothing that was started outlives the call.
    """
    bench = Workbench(subject, folder)
    clock = asyncio.get_running_loop().time
    results = []
    for case in chosen(only):
        began = clock()
        verdict = await case.judge(bench)
        results.append(Result(case.name, verdict, clock() - began))
        if tell is not None:
            tell(results[-1])
    return ConformanceReport(subject.adapter.name, await bench.version(), tuple(results))
