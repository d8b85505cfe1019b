"""What `doctor --isolation` finds out: which isolation this machine gives, and attacks against it.

Starts short-lived processes in a scratch folder; changes nothing else. Says what was done, not what
ought to hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.doctor.machine import BAD, OK, WARN, Diagnosis
from runtime.errors import SandboxUnavailableError
from runtime.isolation.probe import choose, probe
from runtime.isolation.proof.attacks import run_attacks
from runtime.isolation.sandbox import SandboxEngine
from runtime.processes.cgroups import probe as groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.isolation.probe import EngineProbe, SandboxChoice
    from runtime.isolation.proof.attacks import AttackResult


def isolation() -> Iterator[Diagnosis]:
    """Probe the limits and every engine, then attack what is given."""
    yield from _limits()
    found = [probe(engine) for engine in SandboxEngine]
    enough = any(each.works for each in found)
    for each in found:
        yield _engine(each, needed=not enough)
    for level in ("container", "process"):
        wanted = f"level {level} without a network"
        try:
            choice = choose(level, network=False)
        except SandboxUnavailableError as refusal:
            yield Diagnosis(WARN, wanted, f"refused: {refusal.reason}", refusal.remedy)
        else:
            yield from _attacked(level, choice)


def _limits() -> Iterator[Diagnosis]:
    able = groups.capabilities()
    for control in groups.Control:
        found = able.of(control)
        what = f"control of {control}"
        if found.base is None:
            yield Diagnosis(WARN, what, found.why_not, groups.REMEDY)
        else:
            version = f"control groups, version {found.version}, below {found.base}"
            yield Diagnosis(OK, what, f"for whole process trees, by {version}")


def _engine(found: EngineProbe, *, needed: bool) -> Diagnosis:
    if found.works:
        options = f" with {' '.join(found.options)}" if found.options else ""
        return Diagnosis(OK, str(found.engine), f"{found.program}{options} can create sandboxes")
    if not needed:
        return Diagnosis(OK, str(found.engine), f"not needed, and not usable: {found.reason}")
    return Diagnosis(WARN, str(found.engine), found.reason, found.remedy)


def _attacked(level: str, choice: SandboxChoice) -> Iterator[Diagnosis]:
    if choice.engine is None or not choice.engine.engine.shows_system:
        yield Diagnosis(
            WARN,
            f"level {level}",
            "given, but not attacked: the image need not hold the Python that the attacks need",
            "install bubblewrap to see them",
        )
        return
    for finding in run_attacks(choice):
        yield _verdict(level, finding)


def _verdict(level: str, finding: AttackResult) -> Diagnosis:
    what = f"{level}: {finding.claim}"
    if finding.inside:
        return Diagnosis(
            BAD,
            what,
            "the attack works inside",
            "do not run agents that you do not trust at this level here, and report this",
        )
    if not finding.outside:
        why = f" ({finding.detail})" if finding.detail else ""
        return Diagnosis(
            WARN,
            what,
            f"failed inside, but outside as well{why}: it shows nothing here",
            "nothing to fix; on a machine where it works outside, it would show something",
        )
    return Diagnosis(OK, what, "the attack works outside, and failed inside")
