"""Which sandboxes this machine can make, found out by making one, and what to do if it cannot.

Owns the choice of an engine. It must not weaken what was asked for unless that is allowed, and then
it says so.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.errors import SandboxUnavailableError
from runtime.isolation.bubblewrap import SHIELDS
from runtime.isolation.command_line import wrapped
from runtime.isolation.sandbox import Sandbox, SandboxEngine
from runtime.temp_folders import scratch

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE = 60.0
_LAST_WORDS = 300
_RUNTIMES: dict[SandboxEngine, tuple[tuple[str, ...], ...]] = {
    SandboxEngine.BUBBLEWRAP: ((),),
    # crun refuses machines with both versions of control groups, where runc works.
    SandboxEngine.PODMAN: ((), ("--runtime", "runc")),
    SandboxEngine.DOCKER: ((),),
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
"""Parts of error messages, and what would help."""


@dataclass(frozen=True, slots=True)
class EngineProbe:
    """Whether an engine works here. Either `program` or `reason` and `remedy` are set."""

    engine: SandboxEngine
    program: str = ""
    options: tuple[str, ...] = ()
    shield: str = "env"
    reason: str = ""
    remedy: str = ""

    @property
    def works(self) -> bool:
        """A sandbox was made and a program ran in it."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class SandboxChoice:
    """What is provided: the level, the network, and the engine if there is a sandbox."""

    level: str
    network: bool
    engine: EngineProbe | None = None
    image: str = ""
    weaker: str = ""
    """What was asked for and is not provided, and why; for the audit. Empty if all is."""


@functools.cache
def probe(engine: SandboxEngine, image: str = "") -> EngineProbe:
    """Make a sandbox with this engine and run a program in it; cached.

    Blocks for short commands: on an event loop call it in a thread.
    """
    if engine is SandboxEngine.BUBBLEWRAP and sys.platform != "linux":
        return EngineProbe(
            engine,
            reason="bubblewrap needs Linux",
            remedy="install podman or docker, and set an image",
        )
    program = shutil.which(engine.command)
    if program is None:
        return EngineProbe(
            engine,
            reason=f"there is no {engine.command} on PATH",
            remedy=f"install {engine} (`apt-get install {engine}`, `dnf install {engine}`)",
        )
    if engine is not SandboxEngine.BUBBLEWRAP and not image:
        return EngineProbe(
            engine,
            reason=f"{engine} needs an image, and none is set",
            remedy="set an image that holds the agent's program",
        )
    return _try_all(engine, program, image)


def _try_all(engine: SandboxEngine, program: str, image: str) -> EngineProbe:
    shields = SHIELDS if engine is SandboxEngine.BUBBLEWRAP else ("env",)
    first = ""
    for options in _RUNTIMES[engine]:
        for shield in shields:
            problem = _try(engine, program, image, options, shield)
            if not problem:
                return EngineProbe(engine, program, options, shield)
            first = first or problem
    remedy = next((text for word, text in _REMEDIES if word in first), "see what it says")
    return EngineProbe(engine, reason=first, remedy=remedy)


def _try(
    engine: SandboxEngine, program: str, image: str, options: tuple[str, ...], shield: str
) -> str:
    """Run `true` in a sandbox; return what went wrong."""
    with scratch("probe") as folder:
        sandbox = Sandbox(
            folder,
            engine=engine,
            program=program,
            options=options,
            shield=shield,
            image=image,
        )
        environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.environ.get("HOME", "/")}
        mark = {"LOOPWRIGHT_SPAWN_ID": f"probe-{folder.name}"}
        line = wrapped(("true",), folder, environ | mark, sandbox)
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
    engine: SandboxEngine | None = None,
    image: str = "",
    allow_weaker: bool = False,
    ask: Callable[[SandboxEngine, str], EngineProbe] = probe,
) -> SandboxChoice:
    """Choose how to provide a level and a network; SandboxUnavailableError if impossible.

    With `allow_weaker` the next weaker one is used instead, and `weaker` says what and why.
    """
    if level == "container":
        return _container(network, engine, image, ask, allow_weaker=allow_weaker)
    if network:
        return SandboxChoice(level, network=True)
    if level == "process":
        return _without_network(ask, "", allow_weaker=allow_weaker)
    wanted = f"level {level} without a network"
    refusal = SandboxUnavailableError(
        wanted, "such an agent is part of the runner and shares its network", "use level process"
    )
    if not allow_weaker:
        raise refusal
    return SandboxChoice(level, network=True, weaker=_given(refusal, "with the network"))


def _container(
    network: bool,  # noqa: FBT001  # private, as asked for
    engine: SandboxEngine | None,
    image: str,
    ask: Callable[[SandboxEngine, str], EngineProbe],
    *,
    allow_weaker: bool,
) -> SandboxChoice:
    failed = []
    for each in [engine] if engine else SandboxEngine:
        found = ask(each, image)
        if found.works:
            return SandboxChoice("container", network, found, image)
        failed.append(found)
    refusal = SandboxUnavailableError(
        "level container",
        "; ".join(f"{each.engine}: {each.reason}" for each in failed),
        "; or ".join(dict.fromkeys(each.remedy for each in failed)),
    )
    if not allow_weaker:
        raise refusal
    given = _given(refusal, "level process")
    if network:
        return SandboxChoice("process", network=True, weaker=given)
    return _without_network(ask, given, allow_weaker=True)


def _without_network(
    ask: Callable[[SandboxEngine, str], EngineProbe], given: str, *, allow_weaker: bool
) -> SandboxChoice:
    found = ask(SandboxEngine.BUBBLEWRAP, "")
    if found.works:
        return SandboxChoice("process", network=False, engine=found, weaker=given)
    refusal = SandboxUnavailableError("level process without a network", found.reason, found.remedy)
    if not allow_weaker:
        raise refusal
    said = _given(refusal, "with the network")
    return SandboxChoice("process", network=True, weaker=" ".join(filter(None, (given, said))))


def _given(refusal: SandboxUnavailableError, instead: str) -> str:
    return f"{refusal} Given instead: {instead}."
