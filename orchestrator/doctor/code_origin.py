"""What `doctor` and `init` find out about the commands that judge: whose code they would run.

Asks about a checkout that is not there yet, with the settings files of this one in a scratch
folder; what its set-up would install is left out. With level container the programs are looked for
in the sandbox. Changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from lifecycle.errors import PlanError
from lifecycle.launch.sandbox import SandboxPlanner, SandboxRequest
from lifecycle.paths import Paths
from orchestrator.config.plans import find_plan, load_plan
from orchestrator.doctor.machine import BAD, OK, WARN, Diagnosis
from runtime.code_origin.finder import find
from runtime.code_origin.findings import PYTHON
from runtime.code_origin.named_paths import MANIFESTS
from runtime.code_origin.python import concerns
from runtime.code_origin.scripts import calls, started_by
from runtime.code_origin.working_trees import Trees
from runtime.environment import allowed, cleared, withheld_program
from runtime.errors import RuntimeFault
from runtime.isolation.command_line import wrapped
from runtime.isolation.host_paths import program_paths
from runtime.temp_folders import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lifecycle.launch.sandbox import SandboxPlan
    from lifecycle.settings import Settings
    from runtime.code_origin.findings import ForeignCode
    from runtime.environment import Cleared

_RECIPES = ("Makefile", "makefile", "justfile", "noxfile.py", "setup.py")
_PATIENCE = 20.0
WHAT = "right code"


def commands_that_judge(repo: Path, settings: Settings) -> tuple[str, ...]:
    """Return the verify and test commands of the settings, and those of the plan that is there."""
    found = [*settings.verify, *([settings.test_command] if settings.test_command else [])]
    with contextlib.suppress(PlanError):
        path = find_plan(repo)
        if path is not None:
            found += [each for task in load_plan(path).tasks for each in task.verify]
    return tuple(dict.fromkeys(found))


def right_code(repo: Path, settings: Settings, environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Check that the commands which judge would use the code of the checkout that they judge."""
    commands = commands_that_judge(repo, settings)
    if not commands:
        yield Diagnosis(
            WARN,
            "verify",
            "no command judges the work: an agent's claim is accepted once it has committed",
            'write verify = ["COMMAND"] into loopwright.toml',
        )
        return
    found = other_code(repo, settings.setup, commands, environ)
    for each in found:
        yield Diagnosis(BAD, WHAT, f"{each.what} ({each.where})", each.remedy)
    passed = {name: environ[name] for name in settings.pass_env if name in environ}
    clear = cleared(allowed(environ) | passed, Trees(Trees.of(repo).users))
    withheld = clear.withheld
    lost = [] if settings.setup else list(_lost(commands, clear, environ))
    yield from lost
    if not found and not any(each.level == BAD for each in lost):
        entries = ", ".join(entry for entries in withheld.values() for entry in entries)
        but = f"; not inherited: {entries}" if entries else ""
        yield Diagnosis(OK, WHAT, f"nothing leads the commands to other checkouts{but}")
    if settings.isolation == "container":
        yield from _in_sandbox(repo, settings, (*settings.setup, *commands), environ)


def other_code(
    repo: Path, setup: tuple[str, ...], commands: tuple[str, ...], environ: Mapping[str, str]
) -> tuple[ForeignCode, ...]:
    """Return what a fresh checkout would use of the user's, as far as that shows before it is."""
    trees = Trees.of(repo)
    env = cleared(allowed(environ), Trees(trees.users)).env
    if setup:
        # What it installs in the checkout comes first; only the runner can look at that.
        env["PATH"] = ""
    with scratch("code") as folder:
        for name in dict.fromkeys((*MANIFESTS, *_RECIPES, *_scripts(repo, commands))):
            if (repo / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(repo / name, folder / name)
        if concerns(repo):
            (folder / "conftest.py").touch()
        return find(folder, trees, commands, env)


def _scripts(repo: Path, commands: tuple[str, ...]) -> Iterator[str]:
    """Name the scripts of the repository that commands start, and that those start."""
    for command in commands:
        for script in started_by(repo, calls(command)).scripts:
            if script.committed:
                yield os.path.relpath(script.file, repo)


def _lost(
    commands: tuple[str, ...], clear: Cleared, environ: Mapping[str, str]
) -> Iterator[Diagnosis]:
    """Name the programs that the user's shell finds in the user's checkout.

    Where there is another one it may do as well: a Python for what needs no packages.
    """
    for program in _programs(commands):
        place = withheld_program(program, clear.withheld)
        if place and Path(shutil.which(program, path=environ.get("PATH")) or "") == Path(place):
            other = shutil.which(program, path=clear.env.get("PATH", ""))
            found = f"{program} is {place}, which is not inherited: it is not the commit's"
            if other:
                yield Diagnosis(WARN, WHAT, f"{found}. {other} is used instead", PYTHON)
            else:
                yield Diagnosis(BAD, WHAT, found, PYTHON)


def _programs(commands: tuple[str, ...]) -> list[str]:
    """Return the programs that are looked up on the PATH."""
    named = (call.program for command in commands for call in calls(command))
    return list(dict.fromkeys(each for each in named if each and "/" not in each))


def _in_sandbox(
    repo: Path, settings: Settings, commands: tuple[str, ...], environ: Mapping[str, str]
) -> Iterator[Diagnosis]:
    env = cleared(allowed(environ), Trees(Trees.of(repo).users)).env
    path, home = env.get("PATH", ""), Path(env.get("HOME", "/"))
    sandbox = SandboxPlanner(
        repo, Paths.of(repo).root, home=home, path=path, report=lambda _text: None
    )
    with scratch("code") as folder:
        try:
            confined = asyncio.run(
                sandbox.plan(settings, SandboxRequest(folder, ("/bin/sh",), in_git=False))
            )
        except RuntimeFault as problem:
            yield Diagnosis(BAD, "sandbox", str(problem), "see `loopwright doctor --isolation`")
            return
        programs = _programs(commands)
        missing = [each for each in programs if not _is_there(each, confined, folder, env)]
    for program in missing:
        outside = shutil.which(program, path=path)
        if outside is None and settings.setup:
            continue  # the set-up brings it
        if outside is None:
            yield Diagnosis(
                BAD, "sandbox", f"{program} is not in the sandbox, and not on PATH", PYTHON
            )
            continue
        places: tuple[str, ...] = (outside,)
        with contextlib.suppress(RuntimeFault):
            places = tuple(map(str, program_paths(program, repo, path, home))) or places
        shown = ", ".join(f'"{each}"' for each in places)
        yield Diagnosis(
            BAD,
            "sandbox",
            f"{program} ({outside}) is not in the sandbox, so its command would fail",
            f"sandbox_readable = [{shown}], or let `setup` install it in each checkout",
        )
    if not missing:
        yield Diagnosis(OK, "sandbox", f"{', '.join(programs)}: found inside")


def _is_there(program: str, confined: SandboxPlan, folder: Path, env: Mapping[str, str]) -> bool:
    if confined.sandbox is None:
        return True
    asked = ("/bin/sh", "-c", f"command -v {quote(program)}")
    inside = wrapped(asked, folder, {**env, **confined.env}, confined.sandbox)
    try:
        done = subprocess.run(
            inside.command, cwd=folder, env=inside.env, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
