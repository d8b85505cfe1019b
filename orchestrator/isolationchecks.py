"""What `doctor --isolation` finds out: which isolation this machine gives, and attacks against it.

Starts short-lived processes in a scratch folder; changes nothing else. Says what was done, not what
ought to hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.checks import BAD, OK, WARN, Check
from runtime.cgroups import probe as groups
from runtime.isolation.attacks import run_attacks
from runtime.isolation.box import Engine
from runtime.isolation.errors import IsolationUnavailableError
from runtime.isolation.probe import choose, probe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.isolation.attacks import Finding
    from runtime.isolation.probe import Choice, Probe


def isolation() -> Iterator[Check]:
    """Probe the limits and every engine, then attack what is given."""
    yield from _limits()
    found = [probe(engine) for engine in Engine]
    enough = any(each.works for each in found)
    for each in found:
        yield _engine(each, needed=not enough)
    for level in ("container", "process"):
        wanted = f"level {level} without a network"
        try:
            choice = choose(level, network=False)
        except IsolationUnavailableError as refusal:
            yield Check(WARN, wanted, f"refused: {refusal.reason}", refusal.remedy)
        else:
            yield from _attacked(level, choice)


def _limits() -> Iterator[Check]:
    able = groups.capabilities()
    for control in groups.Control:
        found = able.of(control)
        what = f"control of {control}"
        if found.base is None:
            yield Check(WARN, what, found.why_not, groups.REMEDY)
        else:
            version = f"control groups, version {found.version}, below {found.base}"
            yield Check(OK, what, f"for whole process trees, by {version}")


def _engine(found: Probe, *, needed: bool) -> Check:
    if found.works:
        options = f" with {' '.join(found.options)}" if found.options else ""
        return Check(OK, str(found.engine), f"{found.program}{options} makes boxes")
    if not needed:
        return Check(OK, str(found.engine), f"not needed, and not usable: {found.reason}")
    return Check(WARN, str(found.engine), found.reason, found.remedy)


def _attacked(level: str, choice: Choice) -> Iterator[Check]:
    if choice.engine is None or not choice.engine.engine.shows_system:
        yield Check(
            WARN,
            f"level {level}",
            "given, but not attacked: the image need not hold the Python that the attacks need",
            "install bubblewrap to see them",
        )
        return
    for finding in run_attacks(choice):
        yield _verdict(level, finding)


def _verdict(level: str, finding: Finding) -> Check:
    what = f"{level}: {finding.claim}"
    if finding.inside:
        return Check(
            BAD,
            what,
            "the attack works inside",
            "do not run agents that you do not trust at this level here, and report this",
        )
    if not finding.outside:
        why = f" ({finding.detail})" if finding.detail else ""
        return Check(
            WARN,
            what,
            f"failed inside, but outside as well{why}: it shows nothing here",
            "nothing to mend; on a machine where it works outside, it would show something",
        )
    return Check(OK, what, "the attack works outside, and failed inside")
