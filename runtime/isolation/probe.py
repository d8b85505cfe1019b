"""Which boxes this machine can make, found out by making one; and what to do where it cannot.

Owns the choice of an engine and its refusal. It must not weaken what was asked for unless told to,
and then it says so.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.isolation.box import Box, Engine
from runtime.isolation.bubblewrap import SHIELDS
from runtime.isolation.errors import IsolationUnavailableError
from runtime.isolation.wrap import wrapped
from runtime.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE = 60.0
_LAST_WORDS = 300
_RUNTIMES: dict[Engine, tuple[tuple[str, ...], ...]] = {
    Engine.BUBBLEWRAP: ((),),
    # crun refuses machines with both versions of control groups, where runc works.
    Engine.PODMAN: ((), ("--runtime", "runc")),
    Engine.DOCKER: ((),),
}
_REMEDIES = (
    ("AppArmor", "let bwrap make user namespaces: an AppArmor profile with `userns,` for it"),
    ("uid map", "let bwrap make user namespaces: an AppArmor profile with `userns,` for it"),
    ("new namespace", "sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces=15000"),
    ("RTM_NEWADDR", "let bwrap make user namespaces: an AppArmor profile with `userns,` for it"),
    ("mount proc", "start the container around this with an unmasked /proc, or run outside of it"),
    ("ermission denied", "run outside of a container, or in one that may make namespaces"),
    ("not permitted", "run outside of a container, or in one that may make namespaces"),
    ("ignore-signal", "install GNU coreutils 8.31 or newer, or perl"),
    ("catatonit", "install catatonit"),
    ("daemon", "start the docker daemon, and let this user reach it"),
    ("no such image", "pull the image first"),
    ("not known", "pull the image first"),
)
"""What a failed try says, and what would help."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether an engine works here. Either `program` or `reason` and `remedy` are set."""

    engine: Engine
    program: str = ""
    options: tuple[str, ...] = ()
    shield: str = "env"
    reason: str = ""
    remedy: str = ""

    @property
    def works(self) -> bool:
        """A box was made and a program ran in it."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class Choice:
    """What is given: the level, the network, and who makes the box if there is one."""

    level: str
    network: bool
    engine: Probe | None = None
    image: str = ""
    weaker: str = ""
    """What was asked for and is not given, and why; for the audit. Empty when all is given."""


@functools.cache
def probe(engine: Engine, image: str = "") -> Probe:
    """Make a box with this engine and run a program in it; done once per process.

    It waits for short commands: on an event loop call it in a thread.
    """
    if engine is Engine.BUBBLEWRAP and sys.platform != "linux":
        return Probe(
            engine,
            reason="bubblewrap needs Linux",
            remedy="install podman or docker, and set an image",
        )
    program = shutil.which(engine.command)
    if program is None:
        return Probe(
            engine,
            reason=f"there is no {engine.command} on PATH",
            remedy=f"install {engine} (`apt-get install {engine}`, `dnf install {engine}`)",
        )
    if engine is not Engine.BUBBLEWRAP and not image:
        return Probe(
            engine,
            reason=f"{engine} needs an image, and none is set",
            remedy="set an image that holds the agent's program",
        )
    return _try_all(engine, program, image)


def _try_all(engine: Engine, program: str, image: str) -> Probe:
    shields = SHIELDS if engine is Engine.BUBBLEWRAP else ("env",)
    first = ""
    for options in _RUNTIMES[engine]:
        for shield in shields:
            problem = _try(engine, program, image, options, shield)
            if not problem:
                return Probe(engine, program, options, shield)
            first = first or problem
    remedy = next((text for word, text in _REMEDIES if word in first), "see what it says")
    return Probe(engine, reason=first, remedy=remedy)


def _try(engine: Engine, program: str, image: str, options: tuple[str, ...], shield: str) -> str:
    """Run `true` in a box; return what went wrong."""
    with scratch("probe") as folder:
        box = Box(
            folder,
            engine=engine,
            program=program,
            options=options,
            shield=shield,
            image=image,
        )
        environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.environ.get("HOME", "/")}
        mark = {"LOOPWRIGHT_SPAWN_ID": f"probe-{folder.name}"}
        line = wrapped(("true",), folder, environ | mark, box)
        try:
            done = subprocess.run(
                line.command,
                env=line.env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            if line.cleanup:
                subprocess.run(line.cleanup, env=line.env, capture_output=True, check=False)
            return f"{program} did not answer within {_PATIENCE:g} s"
        except OSError as error:
            return f"{line.command[0]} cannot be started: {error.strerror}"
    if done.returncode == 0:
        return ""
    words = " ".join(done.stderr.decode(errors="replace").split())[-_LAST_WORDS:]
    return f"{words or 'it gave no reason'} (exit code {done.returncode})"


def choose(  # noqa: PLR0913  # all by name
    level: str,
    *,
    network: bool = True,
    engine: Engine | None = None,
    image: str = "",
    allow_weaker: bool = False,
    ask: Callable[[Engine, str], Probe] = probe,
) -> Choice:
    """Choose how to give a level and a network; IsolationUnavailableError when that is impossible.

    With `allow_weaker` the next weaker is given instead, and `Choice.weaker` tells what and why.
    """
    if level == "container":
        return _container(network, engine, image, ask, allow_weaker=allow_weaker)
    if network:
        return Choice(level, network=True)
    if level == "process":
        return _without_network(ask, "", allow_weaker=allow_weaker)
    wanted = f"level {level} without a network"
    refusal = IsolationUnavailableError(
        wanted, "such an agent is part of the runner and shares its network", "use level process"
    )
    if not allow_weaker:
        raise refusal
    return Choice(level, network=True, weaker=_given(refusal, "with the network"))


def _container(
    network: bool,  # noqa: FBT001  # private, as asked for
    engine: Engine | None,
    image: str,
    ask: Callable[[Engine, str], Probe],
    *,
    allow_weaker: bool,
) -> Choice:
    failed = []
    for each in [engine] if engine else Engine:
        found = ask(each, image)
        if found.works:
            return Choice("container", network, found, image)
        failed.append(found)
    refusal = IsolationUnavailableError(
        "level container",
        "; ".join(f"{each.engine}: {each.reason}" for each in failed),
        "; or ".join(dict.fromkeys(each.remedy for each in failed)),
    )
    if not allow_weaker:
        raise refusal
    given = _given(refusal, "level process")
    if network:
        return Choice("process", network=True, weaker=given)
    return _without_network(ask, given, allow_weaker=True)


def _without_network(
    ask: Callable[[Engine, str], Probe], given: str, *, allow_weaker: bool
) -> Choice:
    found = ask(Engine.BUBBLEWRAP, "")
    if found.works:
        return Choice("process", network=False, engine=found, weaker=given)
    refusal = IsolationUnavailableError(
        "level process without a network", found.reason, found.remedy
    )
    if not allow_weaker:
        raise refusal
    said = _given(refusal, "with the network")
    return Choice("process", network=True, weaker=" ".join(filter(None, (given, said))))


def _given(refusal: IsolationUnavailableError, instead: str) -> str:
    return f"{refusal} Given instead: {instead}."
