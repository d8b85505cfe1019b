"""Which program an agent is, and how one process of it is started.

Owns the joining of what a person wants (agent, settings) with what an adapter knows. Starts
nothing and writes nothing.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lifecycle.errors import PlanError
from runtime.agents import catalogue
from runtime.agents.adapter import Launch, LaunchRequest, McpServer, plan
from runtime.errors import SpawnError
from runtime.private_files import make_private

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lifecycle.plan import Agent
    from lifecycle.settings import Settings
    from runtime.agents.adapter import Adapter

COMMAND = "command"
SCRIPTED = "scripted"
"""The agent program that ships, for demos and tests."""
PROGRAMS = tuple(name for name in catalogue.BUILT_IN if name != COMMAND)
_SCRIPTED_COMMAND = ("loopwright-agent",)
SERVER = "loopwright"
"""Under which name agents see our tools."""
TOOL = "report_breakpoint"
"""The one by which they signal."""


class Program(NamedTuple):
    """An agent program as a person named it."""

    adapter: Adapter
    model: str = ""
    command: tuple[str, ...] = ()
    """For the adapter `command`: the whole command line."""

    @property
    def executable(self) -> str:
        """What has to be found on the PATH."""
        if self.command:
            return self.command[0]
        found = (name for name in self.adapter.programs if shutil.which(name))
        return next(found, self.adapter.programs[0])


def named(entry: str) -> Program:
    """Return the program that NAME or NAME:MODEL means; PlanError names those there are."""
    name, colon, model = entry.partition(":")
    if not name:
        raise PlanError(f"{entry!r} names no agent program; {_known()}")
    if colon and not model:
        raise PlanError(f"{entry!r} names no model; write {name!r}, or '{name}:MODEL'")
    if model.startswith("-") or "\0" in model:
        raise PlanError(f"{model!r} is not a model of {name}")
    if name == SCRIPTED:
        return Program(catalogue.adapter(COMMAND), "", _SCRIPTED_COMMAND)
    if name == COMMAND:
        raise PlanError("the agent program `command` is any command: give it as command=[...]")
    try:
        return Program(catalogue.adapter(name), model)
    except SpawnError as problem:
        raise PlanError(
            f"there is no agent program {name!r}; {_known()}; for any other give "
            "--command 'PROGRAM ARG', or `command` in loopwright.toml"
        ) from problem


def _known() -> str:
    """Name the agent programs that people ask for; the scripted one is for demos."""
    return f"known are {', '.join(name for name in catalogue.adapters() if name != COMMAND)}"


def programs_of(agent: Agent) -> tuple[Program, ...]:
    """Return every program that may take an attempt of this agent; PlanError for unknown ones."""
    if agent.command:
        return (Program(catalogue.adapter(COMMAND), "", agent.command),)
    return tuple(named(entry) for entry in agent.programs)


def program_of(agent: Agent, entry: str) -> Program:
    """Return the program that takes the next attempt: the entry of the chain, else the only one."""
    return named(entry) if entry else programs_of(agent)[0]


def installed() -> dict[str, str]:
    """Return which known agent programs are on this machine, and where."""
    found = {}
    for name in catalogue.BUILT_IN:
        paths = (shutil.which(each) for each in catalogue.built_in(name).programs)
        path = next((each for each in paths if each), None)
        if path is not None:
            found[name] = path
    return found


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """What is the same for all attempts of a runner."""

    as_root: bool = False
    tool_server: tuple[str, ...] = ()
    """The command line of our tool server; () where it is not there."""
    command: str = ""
    """Where `loopwright` itself is: an agent's shell may have another PATH than we gave it."""


def here() -> HostEnvironment:
    """Look at this process and what is installed beside it."""
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    beside = Path(sys.executable).with_name("loopwright")
    command = str(beside) if beside.is_file() else shutil.which("loopwright") or ""
    if importlib.util.find_spec("mcp") is None:
        return HostEnvironment(as_root, command=command)
    # Safe path: the server starts in the workspace, where an agent may have put what it likes.
    module = (sys.executable, "-P", "-m", "orchestrator.cli.main")
    return HostEnvironment(as_root, (*((command,) if command else module), "mcp"), command)


def own_programs(folder: Path, command: str) -> Path | None:
    """Make the folder by which agents find `loopwright` itself, and nothing else that is ours."""
    if not command:
        return None
    link = folder / "loopwright"
    try:
        if os.readlink(link) == command:  # noqa: PTH115  # at each start of an agent
            return folder
        link.unlink()
    except FileNotFoundError:
        make_private(folder)
    link.symlink_to(command)
    return folder


def launch(  # noqa: PLR0913  # all by name
    program: Program,
    agent: Agent,
    settings: Settings,
    host: HostEnvironment,
    *,
    config: Path,
    identity: Mapping[str, str],
) -> Launch:
    """Say how a process is started; `config` is its private folder, not made yet.

    `identity` are the variables by which our tools know their agent.
    """
    adapter = program.adapter
    if not adapter.programs:
        return _as_given(program.command)
    tools = None
    if adapter.mcp is not None and offers_tools(settings, host):
        tools = McpServer(SERVER, host.tool_server, identity)
    request = LaunchRequest(
        program=program.executable,
        model=program.model,
        config_folder=str(config),
        private_config=settings.private_config,
        as_root=host.as_root,
        max_turns=settings.max_turns,
        mcp=tools,
        passes=(*settings.pass_env, *agent.env),
        extra=(*settings.agent_args, *agent.args_for(adapter.name, program.model)),
    )
    return plan(adapter, request)


@functools.lru_cache(maxsize=256)
def _as_given(command: tuple[str, ...]) -> Launch:
    return plan(catalogue.adapter(COMMAND), LaunchRequest(command=command))


def offers_tools(settings: Settings, host: HostEnvironment) -> bool:
    """Tell whether agents get our tools; in a sandbox our own program is not visible."""
    if settings.tool_server == "off" or not host.tool_server:
        return False
    return settings.tool_server == "on" or settings.isolation == "process"
