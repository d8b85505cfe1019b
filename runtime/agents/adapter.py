"""What an adapter is: one agent program as data, and how to start a process of it.

Pure: it must not read the environment, write files or start anything. The caller writes the files,
passes and removes the variables, and writes the prompt to standard input.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from runtime.errors import SpawnError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.agents.parsing.parser import ParserFactory

_PLACE = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class McpServer:
    """A tool server that the agent program is to start and use."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Must hold no secret: some programs want it in their argument list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """How one process of an agent program is wanted."""

    program: str = ""
    """Where the program is; '' is its usual name."""
    command: tuple[str, ...] = ()
    """For the adapter `command` only: the whole command line."""
    model: str = ""
    resume: str = ""
    """The session to resume; '' starts a new one."""
    session_id: str = ""
    """The id for a new session, if the program accepts one."""
    config_folder: str = ""
    """A private folder (mode 0700) for the files of this process; needed where there are any."""
    private_config: bool = False
    """Keep the user's own settings, servers and hooks of the program out; his login too."""
    unattended: bool = True
    as_root: bool = False
    max_turns: int | None = None
    mcp: McpServer | None = None
    passes: tuple[str, ...] = ()
    """Names of variables that the user asked to pass; only these may contain a key."""
    extra: tuple[str, ...] = ()
    """More arguments, of the user."""


@dataclass(frozen=True, slots=True)
class File:
    """A file to write before the start, readable for its owner only."""

    path: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the process. The prompt goes to standard input, which is then closed."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """To set, over whatever is inherited."""
    passes: tuple[str, ...] = ()
    """Names of variables of the runner to pass on where they are set."""
    forbids: tuple[str, ...] = ()
    """Names of variables that must not reach it."""
    files: tuple[File, ...] = ()

    def environment(
        self, inherited: Mapping[str, str], source: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the process's variables, from the inherited ones and the runner's own."""
        passed = {name: source[name] for name in self.passes if name in source}
        env = {**inherited, **passed}
        for name in self.forbids:
            env.pop(name, None)
        return {**env, **self.env}


@dataclass(frozen=True, slots=True)
class When:
    """Arguments that are given only if a field of the request is set, or only if it is not."""

    value: str
    argv: tuple[str, ...]
    absent: bool = False


Part: TypeAlias = str | When
SERVER_ARGS = "{server_args}"
"""Placeholder for the arguments of the tool server."""


class McpWay(StrEnum):
    """How a tool server is made known to the program."""

    ARGV = "argv"
    ENV = "env"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpForm:
    """How a tool server is made known, and under which name the agent sees its tools."""

    way: McpWay
    tool: str
    """With `{server}` and `{tool}`."""
    argv: Callable[[McpServer, LaunchRequest], tuple[str, ...]] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    """To set beside it."""

    def tool_name(self, server: str, tool: str) -> str:
        """Return the name that the agent calls a tool by."""
        return self.tool.replace("{server}", server).replace("{tool}", tool)


class Target(StrEnum):
    """Whom a signal goes to."""

    PID = "pid"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Stop:
    """How to ask the program to end. After the grace period its whole tree is killed."""

    signals: tuple[str, ...] = ("TERM",)
    """Names, sent one after the other, each with the whole grace period."""
    to: Target = Target.PID
    grace: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One agent program."""

    name: str
    title: str
    parser: ParserFactory
    tested: tuple[str, ...] = ()
    """Versions that were tested and whose output is in the tests."""
    programs: tuple[str, ...] = ()
    """Names to look for on the PATH, the best first."""
    version_argv: tuple[str, ...] = ("--version",)
    version_pattern: str = r"(\d+\.\d+[\w.+-]*)"
    argv: tuple[Part, ...] = ()
    """Arguments after the program; `{model}` and the like stand for fields of the request."""
    env: Mapping[str, str] = field(default_factory=dict)
    root_env: Mapping[str, str] = field(default_factory=dict)
    """To set where it runs unattended as root."""
    config_env: Mapping[str, str] = field(default_factory=dict)
    """To set where its settings are private; `{config_folder}` is the folder."""
    passes: tuple[str, ...] = ()
    """Variables of its own that it gets from the runner: a login, a folder; never a paid key."""
    keys: tuple[str, ...] = ()
    """Variables that would change who pays or which server is used: removed unless asked for."""
    files: Callable[[LaunchRequest], Mapping[str, str]] | None = None
    """Files of the private folder, by their path in it."""
    settings_env: Callable[[LaunchRequest], Mapping[str, str]] | None = None
    """Variables that hold settings, made for the request."""
    mcp: McpForm | None = None
    hides_git_settings: bool = False
    """Its tools see neither the user's git settings nor the system's; the committer must be set by
    variables."""
    tells_tokens: bool = False
    """Whether its runs report the tokens they used; else a token budget has no effect."""
    tells_cost: bool = False
    """Whether they report their cost; else a budget of money needs a price."""
    input_holds_cached: bool = False
    """Whether its input tokens include the cached ones."""
    stop: Stop = Stop()
    login: str = ""
    """How a person logs in."""
    install: str = ""
    """How a person installs it."""


def plan(adapter: Adapter, request: LaunchRequest) -> Launch:
    """Return how to start a process; SpawnError says what is missing or invalid."""
    _check(adapter, request)
    files = _files(adapter, request)
    values = _values(adapter, request)
    argv = [values["program"]]
    for part in adapter.argv:
        argv += _server_args(adapter, request) if part == SERVER_ARGS else _part(part, values)
    env = dict(adapter.env)
    if request.unattended and request.as_root:
        env |= adapter.root_env
    if request.private_config:
        env |= {name: _filled(text, values) for name, text in adapter.config_env.items()}
    if adapter.settings_env is not None:
        env |= adapter.settings_env(request)
    if request.mcp is not None and adapter.mcp is not None:
        env |= adapter.mcp.env
    if not adapter.programs:
        argv = list(request.command)
    asked = frozenset(request.passes)
    return Launch(
        argv=(*argv, *request.extra),
        env=env,
        passes=tuple(dict.fromkeys((*adapter.passes, *request.passes))),
        forbids=tuple(name for name in adapter.keys if name not in asked),
        files=files,
    )


def _check(adapter: Adapter, request: LaunchRequest) -> None:
    if not adapter.programs and not request.command:
        raise SpawnError(f"The agent {adapter.name} can be any program: give its command line.")
    if adapter.programs and request.command:
        raise SpawnError(
            f"The agent {adapter.name} has its own command line; give extra arguments instead, "
            "or use the agent `command`."
        )
    if request.mcp is not None and adapter.mcp is None:
        raise SpawnError(
            f"The agent {adapter.name} supports no tool server; let it signal by its file."
        )
    given = (request.program, request.model, request.resume, request.session_id)
    for value in (*given, *request.command, *request.extra):
        if "\0" in value:
            raise SpawnError(f"An argument for {adapter.name} holds a NUL character; remove it.")
    for value in given[1:]:
        if value.startswith("-"):
            raise SpawnError(
                f"{value!r} is not a model or session of {adapter.name}: it looks like an option."
            )


def _files(adapter: Adapter, request: LaunchRequest) -> tuple[File, ...]:
    wanted = {} if adapter.files is None else adapter.files(request)
    if (wanted or request.private_config) and not request.config_folder:
        raise SpawnError(f"The agent {adapter.name} needs a folder for its settings; name one.")
    return tuple(File(f"{request.config_folder}/{path}", text) for path, text in wanted.items())


def _values(adapter: Adapter, request: LaunchRequest) -> dict[str, str]:
    return {
        "program": request.program or (adapter.programs[0] if adapter.programs else ""),
        "model": request.model,
        "resume": request.resume,
        "session_id": "" if request.resume else request.session_id,
        "config_folder": request.config_folder,
        "unattended": "yes" if request.unattended else "",
        "max_turns": "" if request.max_turns is None else str(request.max_turns),
        "mcp": "yes" if request.mcp is not None else "",
    }


def _server_args(adapter: Adapter, request: LaunchRequest) -> tuple[str, ...]:
    if request.mcp is None or adapter.mcp is None or adapter.mcp.argv is None:
        return ()
    return adapter.mcp.argv(request.mcp, request)


def _part(part: Part, values: Mapping[str, str]) -> tuple[str, ...]:
    if isinstance(part, str):
        return (_filled(part, values),)
    if bool(values[part.value]) == part.absent:
        return ()
    return tuple(_filled(each, values) for each in part.argv)


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Fill a template in one pass, so that a value with braces stays what it is."""
    return _PLACE.sub(lambda found: values.get(found[1], found[0]), text)
