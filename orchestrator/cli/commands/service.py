"""`loopwright service`: a runner that the system starts for its user, at each login or start."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING

from lifecycle.paths import Paths
from orchestrator.background.service_files import ServiceFacts
from orchestrator.background.service_manager import MANAGERS, ServiceManager, usual_manager
from orchestrator.config.plans import load_plan
from orchestrator.config.settings import load_settings
from orchestrator.control.open_store import runner_of
from orchestrator.control.people_only import require_person
from orchestrator.tasks.sources import is_plan
from orchestrator.terminal import exits
from orchestrator.terminal.options import CommandLineParser, UsageError, find_repo, user
from orchestrator.terminal.text import one_line, say, tell, to_json
from runtime.agents.catalogue import BUILT_IN, built_in
from runtime.git.git import inspect_repository
from runtime.workspaces.worktrees_dir import default_worktrees_dir

if TYPE_CHECKING:
    from argparse import Namespace

ACTIONS = ("install", "uninstall", "status")
KEPT = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
"""Variables beside PATH that the service gets: by them it finds what this shell finds."""
SECRETS = "service.env"
_ACTIVE = ("active", "activating", "reloading", "running")
_MORE = """\
install writes a unit for your own systemd, or a property list for launchd, starts it, and has it
started at each login. It runs `loopwright serve` (the default), or `loopwright up --stay` with a
plan. It is started again after a crash, not after `loopwright down` or a clean end. Repeating is
safe: it changes what has changed.

The service gets your present PATH and the folders of your settings, and nothing else of this shell.
Variables that agents or providers need (keys, tokens) go into a file that only you can read; their
names are told, and their values are never written by this command.

Exit code: 0 done, or it is active; 2 refused; 3 status: it is not installed or not active."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Have the system run the loops of this repository: install, uninstall, status.",
        example=f"loopwright {name} install --dry-run\nloopwright {name} install --up plan.toml\n"
        f"loopwright {name} status",
        more=_MORE,
    )
    made.add_argument("action", choices=ACTIONS, help="what to do")
    what = made.add_mutually_exclusive_group()
    what.add_argument("--serve", action="store_true", help="run `loopwright serve` (the default)")
    what.add_argument(
        "--up", nargs="?", const="", metavar="PLAN", help="run `loopwright up [PLAN] --stay`"
    )
    made.add_argument(
        "--manager", choices=MANAGERS, default=usual_manager(), help="by default this system's"
    )
    made.add_argument("--dry-run", action="store_true", help="only print the file and the commands")
    return made.with_json("of status: print JSON instead of text").with_repo()


def run(name: str, args: list[str]) -> int:
    """Do it."""
    options = parser(name).parse_args(args)
    if options.action != "install" and (options.up is not None or options.serve):
        raise UsageError("--up and --serve go with install")
    repo = find_repo(options.repo)
    manager = ServiceManager(options.manager, os.environ)
    service = f"loopwright-{default_worktrees_dir(repo).name}"
    if options.action == "status":
        return _status(manager, repo, service, json=options.json)
    require_person(repo, f"{options.action} a service")
    if options.action == "uninstall":
        return _uninstall(manager, repo, service, only_show=options.dry_run)
    inspect_repository(repo).require_usable()
    return _install(manager, _facts(options, repo, service), repo, only_show=options.dry_run)


def _facts(options: Namespace, repo: Path, name: str) -> ServiceFacts:
    if options.up is None:
        command: tuple[str, ...] = ("serve",)
    else:
        command = ("up", *_plan(options.up), "--stay")
    return ServiceFacts(
        name=name,
        told=f"Loopwright ({command[0]}) in {repo}",
        command=(*_program(), *command, "--plain", "--repo", str(repo)),
        folder=repo,
        variables=_variables(),
        secrets=_secrets(),
        log=Paths.of(repo).root / f"{command[0]}.log",
        says_ready=command[0] == "serve",
    )


def _plan(source: str) -> list[str]:
    """Return the plan as it is found from any folder; one that cannot be run is refused now."""
    if not source:
        return []
    path = Path(source).resolve()
    if is_plan(source):
        load_plan(path)
    return [str(path) if path.exists() else source]


def _program() -> tuple[str, ...]:
    beside = Path(sys.executable).with_name("loopwright")
    module = (sys.executable, "-P", "-m", "orchestrator.cli.main")
    return (str(beside),) if beside.is_file() else module


def _variables() -> dict[str, str]:
    """Return what the service gets of this shell; relative entries of PATH lead elsewhere there."""
    path = dict.fromkeys(each for each in os.environ.get("PATH", "").split(":") if each[:1] == "/")
    kept = {name: os.environ[name] for name in KEPT if os.environ.get(name)}
    return {"PATH": ":".join(path) or os.defpath, **kept}


def _secrets() -> Path:
    given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    config = given if given.is_absolute() else Path(os.environ.get("HOME", "~")) / ".config"
    return config.expanduser() / "loopwright" / SECRETS


def _install(manager: ServiceManager, facts: ServiceFacts, repo: Path, *, only_show: bool) -> int:
    path = manager.file(facts.name)
    if only_show:
        say(f"# {path}")
        say(manager.content(facts).decode().rstrip("\n"))
        for command in manager.starting(facts.name, changed=False):
            say(f"# {join(command)}")
        _tell_of_variables(facts, repo)
        return exits.COMPLETE
    if manager.kind == "launchd":
        facts.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    runner = runner_of(repo)
    new = manager.install(facts, lambda command: tell(f"+ {join(command)}"))
    say(f"{facts.name}: {'installed' if new else 'is installed and unchanged'}; {path}")
    if runner is not None and manager.state(facts.name) != "active":
        who = f"{runner.get('who', 'a runner')} (pid {runner.get('pid', '?')})"
        tell(f"{who} is at work here; the service begins once that has ended (`loopwright down`)")
    _tell_of_variables(facts, repo)
    if manager.lingers() is False:
        tell(
            "It ends when you log out. To have it run without a login: "
            f"loginctl enable-linger {user()}"
        )
    return exits.COMPLETE


def _uninstall(manager: ServiceManager, repo: Path, name: str, *, only_show: bool) -> int:
    if only_show:
        for command in manager.ending(name):
            say(f"# {join(command)}")
        say(f"# rm {manager.file(name)}")
        return exits.COMPLETE
    if manager.uninstall(name, lambda command: tell(f"+ {join(command)}")):
        say(f"{name}: ended and removed; every lifecycle goes on with `loopwright up`")
    else:
        say(f"no service is installed for {repo}")
    return exits.COMPLETE


def _status(manager: ServiceManager, repo: Path, name: str, *, json: bool) -> int:
    path, runner = manager.file(name), runner_of(repo)
    there = path.exists()
    state = manager.state(name) if there else "not installed"
    if json:
        told = {"name": name, "installed": there, "file": str(path), "state": state}
        say(to_json({**told, "runner": runner}))
    else:
        say(f"{name}: {state}" + (f"; {path}" if there else ""))
        if runner is not None:
            url = f" at {runner['url']}" if "url" in runner else ""
            say(f"runner: {one_line(str(runner.get('who', 'unknown')))}{url}, pid {runner['pid']}")
        if there and manager.kind == "systemd":
            tell(f"Its output: journalctl --user --unit {name}")
    return exits.COMPLETE if there and state in _ACTIVE else exits.BLOCKED


def _tell_of_variables(facts: ServiceFacts, repo: Path) -> None:
    """Name the variables of this shell that the service lacks and may need."""
    named = {key for each in BUILT_IN for key in built_in(each).keys}
    named |= {*load_settings(repo, environ=os.environ).pass_env}
    named |= {name for name in os.environ if name.startswith("LOOPWRIGHT_")}
    lacks = sorted(name for name in named if os.environ.get(name) and name not in facts.variables)
    if not lacks:
        return
    known = facts.secrets.read_text("utf-8", "replace") if facts.secrets.is_file() else ""
    lacks = [name for name in lacks if f"{name}=" not in known]
    if lacks:
        tell(
            f"Set in this shell, and not for the service: {', '.join(lacks)}. If it needs them, "
            f"write NAME=VALUE lines into {facts.secrets} (chmod 600), then install again."
        )
