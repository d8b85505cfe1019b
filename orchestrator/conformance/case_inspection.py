"""The cases that start nothing of their own: they look at the plain turn, or at the adapter alone.

They judge facts and know no program by name.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.conformance.replay import GOOD, first_problem, interleaved, replay
from orchestrator.conformance.trial import facts_of, shown
from orchestrator.conformance.verdict import CaseVerdict, failed, not_provoked, passed
from orchestrator.conformance.workbench import UNLISTED, is_inside

if TYPE_CHECKING:
    from orchestrator.conformance.trial import Ran
    from orchestrator.conformance.workbench import TrialFolders, Workbench

__all__ = ["GOOD", "config", "environment", "lines", "outcome", "version"]

_OTHERS = 0o077


async def version(bench: Workbench) -> CaseVerdict:
    """Judge whether the program tells its version."""
    adapter = bench.subject.adapter
    if not adapter.programs:
        return not_provoked("it is any command; nobody knows how to ask for its version")
    found = await bench.installed()
    known = {"version": found.version or None, "versions_tested": list(adapter.tested)}
    if not found.version:
        return failed(found.problem or "it was not found", **known)
    if found.tested:
        return passed(f"{found.version}, which was tested", **known)
    listed = ", ".join(adapter.tested) or "none"
    return passed(f"{found.version}, which is not among those tested: {listed}", **known)


async def environment(bench: Workbench) -> CaseVerdict:
    """Judge which variables the program was started with."""
    _, launch, ran = await bench.turn()
    if ran.environ is None:
        return not_provoked("this system does not show the variables of a process")
    forbidden = frozenset((*launch.forbids, UNLISTED))
    leaked = sorted(
        name for name, value in ran.environ.items() if name in forbidden or bench.canary in value
    )
    known = {"variables": sorted(ran.environ), "forbidden": sorted(launch.forbids)}
    if leaked:
        return failed(f"it got what it must not get: {', '.join(leaked)}", **known)
    return passed(
        f"{len(ran.environ)} variables reached it, none of {len(forbidden)} that must not", **known
    )


async def config(bench: Workbench) -> CaseVerdict:
    """Judge where the adapter's files are, and who may read them after the turn."""
    place, launch, _ = await bench.turn()
    wanted = bench.all_files(place)
    outside = [path for path in wanted if not is_inside(place.config, Path(path))]
    if outside:
        return failed(f"these files are not in its private folder: {', '.join(outside)}")
    written = [Path(file.path) for file in launch.files]
    if not wanted and not bench.subject.private:
        return not_provoked("its adapter writes no settings")
    open_to_others = _open_to_others(place, written)
    names = {"files": [str(Path(path).relative_to(place.config)) for path in wanted]}
    if open_to_others:
        return failed(f"others may read after its turn: {', '.join(open_to_others)}", **names)
    return passed(f"{len(written)} of {len(wanted)} files written, for its owner only", **names)


def _open_to_others(place: TrialFolders, written: list[Path]) -> list[str]:
    found = []
    for path in (place.config, *written):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        if stat.S_IMODE(mode) & _OTHERS:
            name = path.relative_to(place.folder)
            found.append(f"{name} ({stat.S_IMODE(mode):04o})")
    return found


async def lines(bench: Workbench) -> CaseVerdict:
    """Judge whether unknown or corrupted output makes the parser fail, or changes its verdict."""
    _, _, ran = await bench.turn()
    adapter, now = bench.subject.adapter, bench.subject.now
    spoilt, problem = first_problem(adapter, now, ran.lines)
    if problem:
        return failed(f"its parser failed on {spoilt}: {problem}")
    told = {"lines_of_its_turn": len(ran.lines)}
    plain = replay(adapter, now, ran.lines, ran.code)
    mixed = replay(adapter, now, interleaved(ran.lines), ran.code)
    if plain.outcome is None or mixed.outcome is None:
        return failed(f"its parser failed: {plain.problem or mixed.problem}", **told)
    if plain.good and not mixed.good:
        return failed(
            f"unknown lines between those of its turn make the outcome {mixed.outcome.outcome}, "
            f"instead of {plain.outcome.outcome}",
            **told,
        )
    return passed("unknown, torn and mistyped lines are ignored", **told)


async def outcome(bench: Workbench) -> CaseVerdict:
    """Judge whether the outcome of good runs fits the exit code, and would not fit another."""
    _, _, ran = await bench.turn()
    for each in bench.runs:
        if wrong := _clash(each):
            return failed(wrong, **facts_of(each))
    if ran.outcome is None or ran.outcome.outcome not in GOOD:
        return not_provoked(f"no turn ended well: {shown(ran)}", **facts_of(ran))
    adapter, now = bench.subject.adapter, bench.subject.now
    spoilt = (
        ("with exit code 1", ran.lines, 1),
        ("cut off by KILL before its last line", ran.lines[:-1], -9),
    )
    for words, kept, code in spoilt:
        found = replay(adapter, now, kept, code)
        if found.problem:
            return failed(f"its parser failed: {found.problem}", **facts_of(ran))
        if found.good:
            return failed(f"the same turn {words} still counts as a good one", **facts_of(ran))
    return passed(
        "good with exit code 0; the same turn with 1, or cut off, is not", **facts_of(ran)
    )


def _clash(ran: Ran) -> str:
    if ran.ended_by is not None or ran.outcome is None or ran.outcome.outcome not in GOOD:
        return ""
    return "" if ran.code == 0 else f"its outcome is {ran.ending}, but its exit code {ran.code}"
