"""Which agents can be spawned: programs, and Python objects in this process."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Any, Protocol

from lifecycle.fleet.api.options import NIL, IsolationLevel, Model, ResourceLimits
from lifecycle.fleet.errors import AgentNotFoundError, SpawnValidationError
from lifecycle.store.instances import NAMESPACE

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path
    from uuid import UUID

    from lifecycle.fleet.api.instances import AgentInstance
    from lifecycle.reporting import Report

ENTRY_POINTS = "loopwright.agents"
"""Entry point group; each names an `AgentDefinition`, several, or a callable returning them."""
IN_PROCESS = (IsolationLevel.NONE, IsolationLevel.THREAD)


class AgentManifest(Model):
    """An agent's description of itself."""

    name: str
    version: str = ""
    description: str = ""
    capabilities: tuple[str, ...] = ()


class AgentRequirements(Model):
    """How an agent runs unless a request says otherwise."""

    isolation_level: IsolationLevel | None = None
    """None: thread for Python objects, process for programs."""
    resource_limits: ResourceLimits | None = None
    """None: the default limits for Python objects, no limits for programs."""
    network: bool = True
    """False denies a program any network, including the machine's own services."""
    image: str = ""
    """For the level container with podman or docker."""


@dataclass(frozen=True, slots=True)
class AgentContext:
    """The context that an in-process agent is initialised with."""

    instance_id: UUID
    name: str
    values: Mapping[str, Any]
    """The context of the spawn request: nobody can change it, and keys have no case."""
    limits: ResourceLimits
    workers: Executor
    """Threads for the agent's own parallel work, up to its limit."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key."""
        return self.values.get(key, default)


class InProcessAgent(Protocol):
    """An agent that is a Python object. It is trusted: nothing isolates it.

    It runs in the caller's event loop (none) or in that of a thread of its own (thread), and ends
    only if it honours cancellation. An exception of `process` fails the agent, unless it is a
    `WorkError`. An agent may also have `async final_state()`, which returns JSON to be kept.
    """

    async def initialise(self, context: AgentContext) -> None:
        """Initialise the agent."""
        ...

    async def process(self, work: Any) -> Any:
        """Do a piece of work and return its result."""
        ...

    async def shut_down(self) -> None:
        """Release all resources."""
        ...


@dataclass(frozen=True, slots=True)
class CommandAgent:
    """An agent that is a program; the text `prompt` of the context is its standard input."""

    command: tuple[str, ...]
    cwd: Path | None = None
    """None: a new folder of its own. `workspace` in the context overrides both."""
    env: Mapping[str, str] = field(default_factory=dict)
    inherit: tuple[str, ...] = ()
    """Names of the runner's environment variables that it also gets."""
    adapter: str = ""
    """The name of the agent program whose output this is (`loopwright agents` lists them): its
    tokens are then read from its log, so that `max_tokens_per_minute` holds."""
    ready_text: str = ""
    """It is ready once its output contains this; if empty, once it has started."""
    log_cap_bytes: int = 16 * 2**20


@dataclass(frozen=True, slots=True)
class CleanupHook:
    """A callback when an instance is terminated: after its work was cancelled, before its release.

    `timeout` is in seconds; hooks share the `graceful_timeout` of the termination, too.
    """

    name: str
    run: Callable[[AgentInstance], Awaitable[None]]
    timeout: float = 5.0


HealthCheck = Callable[["AgentInstance"], Awaitable[str]]
"""Returns an empty string if healthy, else the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """One kind of agent."""

    name: str
    runs: CommandAgent | Callable[[], InProcessAgent]
    """The program, or a callable that creates the object, a new one for each start."""
    definition_id: UUID = NIL
    """If it is not given, it is derived from the name."""
    manifest: AgentManifest | None = None
    requirements: AgentRequirements = field(default_factory=AgentRequirements)
    cleanup: tuple[CleanupHook, ...] = ()
    checks: Mapping[str, HealthCheck] = field(default_factory=dict)
    """Custom health checks, by the name that options use."""

    def __post_init__(self) -> None:
        if self.definition_id == NIL:
            object.__setattr__(self, "definition_id", definition_id_of(self.name))
        if self.manifest is None:
            object.__setattr__(self, "manifest", AgentManifest(name=self.name))

    @property
    def usual_level(self) -> IsolationLevel:
        """The level if a request names none."""
        usual = (
            IsolationLevel.PROCESS if isinstance(self.runs, CommandAgent) else IsolationLevel.THREAD
        )
        return self.requirements.isolation_level or usual

    def check_level(self, level: IsolationLevel) -> None:
        """Refuse a level that this agent does not support."""
        program = isinstance(self.runs, CommandAgent)
        if program == (level in IN_PROCESS):
            fits = "process or container" if program else "none or thread"
            kind = "a program" if program else "a Python object of this process"
            raise SpawnValidationError(
                f"the agent {self.name!r} is {kind}, which cannot run at isolation level {level}; "
                f"ask for {fits}"
            )


def definition_id_of(name: str) -> UUID:
    """Return the id of a definition that gives none."""
    return uuid.uuid5(NAMESPACE, f"agent {name}")


class AgentRegistry:
    """The known definitions."""

    def __init__(self, definitions: Iterable[AgentDefinition] = ()) -> None:
        self._known: dict[UUID, AgentDefinition] = {}
        for definition in definitions:
            self.register(definition)

    def register(self, definition: AgentDefinition) -> AgentDefinition:
        """Add a definition; another one with its id or name is refused."""
        for known in self._known.values():
            same = known.definition_id == definition.definition_id
            if known != definition and (same or known.name == definition.name):
                raise SpawnValidationError(
                    f"an agent {known.name!r} ({known.definition_id}) is already registered; "
                    "give the other one its own name and id"
                )
        self._known[definition.definition_id] = definition
        return definition

    def get(self, definition_id: UUID) -> AgentDefinition:
        """Return a definition; AgentNotFoundError names the existing ones."""
        try:
            return self._known[definition_id]
        except KeyError:
            raise AgentNotFoundError(
                f"no agent is registered as {definition_id}; registered are: {self.names()}"
            ) from None

    def names(self) -> str:
        """Return the names of all definitions, as one text."""
        return ", ".join(sorted(each.name for each in self._known.values())) or "none"

    def find(self, name: str) -> AgentDefinition | None:
        """Return the definition with a name."""
        return next((each for each in self._known.values() if each.name == name), None)

    def get_manifest(self, definition_id: UUID) -> AgentManifest:
        """Return an agent's description of itself."""
        return self.get(definition_id).manifest or AgentManifest(name="")

    def definitions(self) -> tuple[AgentDefinition, ...]:
        """Return all definitions, by name."""
        return tuple(sorted(self._known.values(), key=lambda each: each.name))

    def load_entry_points(self, report: Report | None = None) -> int:
        """Register the agents of installed packages; a broken one is reported and skipped."""
        found = 0
        for point in metadata.entry_points(group=ENTRY_POINTS):
            try:
                for definition in _offered(point.load()):
                    self.register(definition)
                    found += 1
            except Exception as problem:  # noqa: BLE001  # any code may be behind an entry point
                if report is not None:
                    report("agent_entry_point_failed", entry_point=point.name, reason=str(problem))
        return found


def _offered(thing: Any) -> Iterable[AgentDefinition]:
    if callable(thing) and not isinstance(thing, AgentDefinition):
        thing = thing()
    offered = [thing] if isinstance(thing, AgentDefinition) else list(thing)
    for each in offered:
        if not isinstance(each, AgentDefinition):
            raise SpawnValidationError(f"{each!r} is not an AgentDefinition")
    return offered
