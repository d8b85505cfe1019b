"""Every setting of the loop, its default, its range and its meaning.

Where the values come from (command line, environment, files) is not decided here.
"""

from __future__ import annotations

import re
import warnings
import zlib
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationError, field_validator

from ci.settings import CISettings
from lifecycle.errors import SettingsError
from lifecycle.machine.budget import UNITS, check_price
from lifecycle.machine.policy import Policy
from lifecycle.notify.channel import NotifyChannel, check_names
from lifecycle.plan import MOST_RETRIES, Label, Reviewer, check_chain, check_variables, check_words
from runtime.setup.globs import refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lifecycle.plan import Task

Network = Literal["allow", "none"]
FORMER_NAMES = {
    f"box_{each}": f"sandbox_{each}"
    for each in ("engine", "image", "readable", "writable", "login")
}
"""Earlier names of settings, which are still read, with a warning."""
BREAKERS = ("stuck_limit", "same_gate_limit")
"""Settings that ask a person before the retries are used up."""

# The setting `copy` has the name of a deprecated method of pydantic's, which nothing here calls.
warnings.filterwarnings("ignore", 'Field name "copy" in "Settings" shadows', UserWarning)

TEMPORAL = "temporal"
_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


class EngineSettings(CISettings):
    """Which engine decides, and what it needs."""

    engine: Literal["local", "temporal"] = "local"
    """What decides in `up` and `serve`: this process (local), or workflows on a Temporal server,
    for agents on many machines; see docs/how-to/many-machines.md."""
    temporal_address: str = ""
    """HOST:PORT of the Temporal server, which `engine = "temporal"` needs."""
    temporal_namespace: str = "default"
    """Namespace on that server, which must exist there."""
    temporal_tls: bool = False
    """Reach the server by TLS; a certificate or an API key means it, too."""
    temporal_tls_ca: str = ""
    """File with the authorities that the server's certificate is checked by (PEM); by default those
    of the system."""
    temporal_tls_cert: str = ""
    """File with the certificate of this machine (PEM), for a server that asks for one."""
    temporal_tls_key: str = ""
    """File with the key of that certificate."""
    temporal_api_key_env: str = ""
    """Name of the environment variable that holds the API key of the server; never the key."""
    temporal_queue_prefix: str = ""
    """What tells the task queues and workflows of this repository from others on the server, the
    same on all its machines; by default a hash of the remote's address."""
    lease: float = Field(default=60.0, ge=2, le=600)
    """Seconds without a sign of life after which the work of a worker goes to another one."""
    labels: tuple[Label, ...] = ()
    """What this machine offers as a worker, such as gpu, to tasks with one of these labels."""

    @field_validator("temporal_address")
    @classmethod
    def _is_host_and_port(cls, address: str) -> str:
        if address and not _ADDRESS.fullmatch(address):
            raise ValueError("write HOST:PORT, such as temporal.example.org:7233, without a scheme")
        return address

    @field_validator("temporal_api_key_env")
    @classmethod
    def _names_a_variable(cls, name: str) -> str:
        # Not quoted: somebody may have put the key itself here.
        if name and not _VARIABLE.fullmatch(name):
            raise ValueError("give the name of an environment variable, not the key itself")
        return name

    @field_validator("temporal_namespace", "temporal_queue_prefix")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if name and not _NAME.fullmatch(name):
            raise ValueError("1 to 63 letters, digits, '.', '_' or '-', as the server wants it")
        return name

    @property
    def wants_tls(self) -> bool:
        """Whether the server is reached by TLS."""
        files = self.temporal_tls_ca, self.temporal_tls_cert, self.temporal_tls_key
        return self.temporal_tls or any(files) or bool(self.temporal_api_key_env)


class Settings(EngineSettings):
    """One reading of the settings; a new attempt is made by a new reading."""

    max_retries: int = Field(default=100, ge=0, le=MOST_RETRIES)
    """Retries after failed attempts; the first attempt is none, so 0 is one attempt. Who names it
    for a task (in a plan, with `run`, in a call) gets exactly so many: `stuck_limit` and
    `same_gate_limit` then hold it up only if they are set, too."""
    max_attempts: int = Field(default=1000, ge=1, le=1_000_000)
    """Attempts of any kind after which a lifecycle is given up."""
    retry_interval: float = Field(default=30.0, ge=0, le=86_400)
    """Seconds before the next attempt after a failed one; also how often blockers are looked at."""
    retry_interval_cap: float = Field(default=600.0, ge=0, le=604_800)
    """Seconds that the growing wait between alike failures never exceeds."""
    breakpoint_check_interval: float = Field(default=1.0, gt=0, le=3600)
    """Seconds between two looks at communications.json beside the watcher."""
    blocked_timeout: float = Field(default=86_400.0, gt=0)
    """Seconds that a lifecycle waits for what blocks it, or for a person, before its loop ends with
    BLOCKED."""
    pr_merge_timeout: float = Field(default=3600.0, gt=0)
    """Seconds to wait for the merge of a pull request, then it is given up to a person. Not set,
    `run`, `up` and `serve` with a forge wait on and remind a person (pr_reminder)."""
    pr_reminder: float = Field(default=0.0, ge=0)
    """Where pr_merge_timeout is not set: seconds after which a person is reminded of a pull request
    that waits for its merge, again and again; 0 for never. `run`, `up` and `serve` with a forge
    remind after 7 days (604800)."""
    stuck_limit: int = Field(default=3, ge=0)
    """Attempts in a row that change nothing and say nothing new, or fail alike on an unchanged
    tree, after which a person is waited for; 0 for never; see docs/agents/outcomes.md."""
    same_gate_limit: int = Field(default=5, ge=0)
    """Times in a row that the verify commands fail alike, whatever is committed in between, after
    which a person is waited for; 0 for never."""
    breaker_cooldown: float = Field(default=3600.0, ge=0)
    """Seconds after which one more attempt is made without a person, then twice as long, up to a
    day and no longer than blocked_timeout in all; 0 for never."""
    stay_for_people: bool = True
    """Wait for people. If not, a loop that only a person can move on ends at once with BLOCKED;
    `run` and `up` do so without a terminal, unless this is set, or with --no-stay."""
    stay_for_pages: float = Field(default=600.0, ge=0, le=604_800)
    """Seconds that `up` stays after the last use of its pages, when all loops rest and something
    waits for a decision; 0 for none."""
    limit_interval: float = Field(default=300.0, ge=0, le=86_400)
    """Seconds to wait, growing to an hour, after a usage limit that names no end."""
    limit_margin: float = Field(default=30.0, ge=0, le=86_400)
    """Seconds to wait beyond the named end of a usage limit, up to twice that."""
    limit_patience: float = Field(default=691_200.0, ge=0)
    """Seconds of usage limits in a row after which a lifecycle is given up."""
    trouble_interval: float = Field(default=30.0, ge=0, le=86_400)
    """Seconds to wait, growing to 15 minutes, after trouble of the provider or the network."""
    max_provider_failures: int = Field(default=50, ge=0)
    """Failures of provider or network in a row after which a lifecycle is given up."""
    max_environment_failures: int = Field(default=10, ge=0)
    """Failures in a row that are not the agent's after which a lifecycle is given up."""
    wall_limit: float = Field(default=14_400.0, ge=0)
    """Seconds an attempt may take; 0 for no limit."""
    idle_limit: float = Field(default=1800.0, ge=0)
    """Seconds an attempt may show no output, no file change and no CPU use; 0 for no limit."""
    tool_limit: float = Field(default=7200.0, ge=0)
    """The same while a tool of the agent runs a program, instead of idle_limit; 0 for no limit."""
    max_events: int = Field(default=500_000, ge=0)
    """Events that an agent's program may report in one attempt; 0 for no limit."""
    max_tool_calls: int = Field(default=5000, ge=0)
    """Tools that an agent may call in one attempt; 0 for no limit."""
    max_turns: int | None = Field(default=None, ge=1)
    """Turns of an attempt, where the agent's program can be told a limit."""
    budget_tokens: int | None = Field(default=None, ge=1)
    """Tokens that all attempts of a lifecycle may use together; see docs/how-to/budgets.md."""
    budget_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Dollars that they may cost; its programs must tell their costs, or stand in `prices`."""
    budget_hours: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Hours that they may work."""
    budget_attempts: int | None = Field(default=None, ge=1)
    """Attempts that a lifecycle may make."""
    plan_budget_tokens: int | None = Field(default=None, ge=1)
    """Tokens that all lifecycles of a plan may use together."""
    plan_budget_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Dollars that they may cost."""
    plan_budget_hours: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Hours that they may work, those of attempts at the same time added up."""
    plan_budget_attempts: int | None = Field(default=None, ge=1)
    """Attempts that they may make."""
    day_budget_tokens: int | None = Field(default=None, ge=1)
    """Tokens that all lifecycles of the repository may use in a calendar day."""
    day_budget_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Dollars that they may cost in a day."""
    day_budget_hours: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Hours that they may work in a day, those of attempts at the same time added up."""
    day_budget_attempts: int | None = Field(default=None, ge=1)
    """Attempts that they may make in a day."""
    repos_day_budget_tokens: int | None = Field(default=None, ge=1)
    """Tokens that all repositories of one `serve` may use together in a calendar day; this and the
    three below count in your own settings file only."""
    repos_day_budget_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Dollars that they may cost together in a day."""
    repos_day_budget_hours: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Hours that they may work together in a day."""
    repos_day_budget_attempts: int | None = Field(default=None, ge=1)
    """Attempts that they may make together in a day."""
    prices: dict[str, dict[str, float]] = Field(default={})
    """Dollars per million tokens, by NAME or NAME:MODEL, for programs that tell tokens and no
    dollars: { codex = { input = 1.25, cached = 0.125, output = 10.0 } }; cached is optional."""
    budget_exempt: tuple[str, ...] = ()
    """Programs that may work although they cannot tell what a budget in tokens or dollars counts;
    `command` is any command. Such a budget counts of them what they tell, which may be nothing."""
    save_limit_mb: int = Field(default=1024, ge=1)
    """MiB of uncommitted files that one save takes, the smallest first. What is beyond is named,
    and its workspace is kept."""
    stop_grace: float = Field(default=10.0, ge=0, le=600)
    """Seconds between asking an agent to end and ending it."""
    gate_timeout: float = Field(default=1800.0, gt=0)
    """Seconds a verify or test command may take."""
    baseline: bool = True
    """Run the verify commands before the first attempt, to tell old failures from new ones."""
    canary: Literal["warn", "require", "off"] = "warn"
    """Run the verify commands once with the changed files broken on purpose: commands that stay
    green look at something else. That is said (warn), or counts as red (require)."""
    review_summaries: bool = False
    """Hold each attempt until a person approved its summary."""
    review_by: Reviewer = ""
    """Who reviews work before it counts as done: an agent program (NAME or NAME:MODEL) or a command
    line; empty for nobody. See docs/how-to/a-second-opinion.md."""
    review_severity: Literal["note", "minor", "major", "critical"] = "major"
    """Findings of a reviewer from which the work goes to a fresh attempt: these and graver ones."""
    review_rounds: int = Field(default=2, ge=0, le=100)
    """Attempts in a row that a reviewer's findings wake, after which a person is asked."""
    review_timeout: float = Field(default=1800.0, gt=0)
    """Seconds a reviewer may take."""
    max_live_agents: int = Field(default=4, ge=1, le=10_000)
    """Agent processes alive at once; waiting lifecycles hold none. A runner keeps to fewer, and
    says so at its start, where the machine's limits on open files and processes leave less room."""
    worktrees_dir: str = ""
    """Folder for the workspaces of agents, read at a start; relative ones begin at the repository.
    By default one for each repository in $XDG_STATE_HOME/loopwright (~/.local/state/loopwright)."""
    isolation: Literal["process", "container"] = "process"
    """How agents are kept apart: in own sessions, or in sandboxes; see docs/how-to/sandbox.md."""
    network: Network = "allow"
    """Whether agents reach the network, which most need for their model."""
    memory_limit_mb: int | None = Field(default=None, ge=16, le=4_194_304)
    """Memory in MB of an agent's whole process tree."""
    cpu_limit_percent: int | None = Field(default=None, ge=1, le=100_000)
    """Processor time of the whole tree, in per cent of one core."""
    process_limit: int | None = Field(default=None, ge=1, le=4_194_304)
    """Processes and threads of the whole tree at once."""
    open_file_limit: int | None = Field(default=None, ge=16, le=1_048_576)
    """Open files of each of an agent's processes."""
    allow_weaker: bool = False
    """Start agents also where this machine cannot give a level or a limit as asked; it is said."""
    sandbox_engine: Literal["bubblewrap", "podman", "docker"] | None = None
    """What makes the sandbox; by default the first of these that works."""
    sandbox_image: str = ""
    """For podman and docker: the image with the agent's program."""
    sandbox_readable: tuple[str, ...] = ()
    """Paths that an agent in a sandbox may read too; relative ones begin at the repository."""
    sandbox_writable: tuple[str, ...] = ()
    """Paths that an agent in a sandbox may write too."""
    sandbox_login: str = ""
    """Whose sign-in is shown inside, read-only: claude, codex, gemini, opencode, or a path."""
    log_cap_bytes: int = Field(default=10 * 1024 * 1024, ge=4096)
    """Size of an attempt's log; of more the head and the tail are kept."""
    retention_hours: float = Field(default=24.0, ge=0)
    """Hours that accepted and rejected records, their logs and snapshots are kept. What is older is
    looked for each hour, or each quarter of these hours where that is less."""
    host: str = "127.0.0.1"
    """Where `serve` and `up` listen."""
    port: int = Field(default=4747, ge=0, le=65_535)
    """The port of `serve` and `up`; 0 for any that is free."""
    allowed_hosts: tuple[str, ...] = ()
    """Names, beside the one listened on, by which the server may be addressed."""
    sign_in_file: str = ""
    """File with the server's bearer token; by default one of your own settings folder."""
    command: tuple[str, ...] = ()
    """The agent's program and arguments where a plan or the command line names none."""
    adapter: str | None = None
    """The agent program by name, instead of a command: NAME or NAME:MODEL."""
    agents: tuple[str, ...] = ()
    """A chain of them: the first that is neither limited nor broken takes the next attempt."""
    agent_args: tuple[str, ...] = ()
    """More arguments for the agent program."""
    private_config: bool = False
    """Keep your own settings, tool servers and sign-in of the agent program away from agents."""
    tool_server: Literal["auto", "on", "off"] = "auto"
    """Whether agents can signal by tool beside the file; auto: where `loopwright[mcp]` is there."""
    pass_env: tuple[str, ...] = ()
    """Names of the runner's variables that agents get too, such as ANTHROPIC_API_KEY."""
    verify: tuple[str, ...] = ()
    """Verify commands of tasks that name none."""
    on_transition: tuple[str, ...] = ()
    """Shell commands that are run in the repository for each transition of a lifecycle; one line of
    JSON on standard input tells of it."""
    notify: tuple[NotifyChannel, ...] = ()
    """Who is told what needs a person: one `[[notify]]` entry for each channel; see
    docs/how-to/notifications.md."""
    repos: tuple[str, ...] = ()
    """Folders of the repositories that `serve` without --repo serves together, in your own settings
    file only; see docs/how-to/many-repositories.md."""
    telemetry: bool = False
    """Send spans and metrics by OpenTelemetry to where the `OTEL_*` variables say, and hand agents
    their span as `TRACEPARENT`; needs `loopwright[otel]`; see docs/how-to/telemetry.md."""
    public_url: str = ""
    """Address at which you reach the server from elsewhere, for links in notifications."""
    setup: tuple[str, ...] = ()
    """Shell commands that install what the code needs, in workspaces and judging checkouts, for
    tasks that name none; see docs/reference/setup.md."""
    copy: tuple[str, ...] = ()  # type: ignore[assignment]  # pydantic's deprecated method
    """Files of your checkout that are in no commit and are copied there too, such as .env; `*` and
    `**` as in a shell."""
    setup_inputs: tuple[str, ...] = ()
    """Files whose change makes the set-up run again; by default lock files and manifests
    such as pyproject.toml and package.json."""
    setup_timeout: float = Field(default=1800.0, gt=0)
    """Seconds a set-up command may take."""
    setup_network: Network = "allow"
    """Whether set-up commands reach the network while their inputs are those of the base; with
    inputs that an agent changed they get what `network` gives the agent."""

    @field_validator("command", "agent_args", "verify", "setup", "setup_inputs")
    @classmethod
    def _can_be_arguments(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        check_words(words)
        return words

    @field_validator("copy")
    @classmethod
    def _are_inside(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            if problem := refusal(pattern):
                raise ValueError(problem)
        return patterns

    @field_validator("pass_env")
    @classmethod
    def _are_variables(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        check_variables(names)
        return names

    @field_validator("notify")
    @classmethod
    def _have_names(cls, channels: tuple[NotifyChannel, ...]) -> tuple[NotifyChannel, ...]:
        check_names(channels)
        return channels

    @field_validator("public_url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        if url and not url.startswith(("http://", "https://")):
            raise ValueError("it must begin with http:// or https://")
        return url.rstrip("/")

    @field_validator("adapter")
    @classmethod
    def _is_one_program(cls, name: str | None) -> str | None:
        if name is not None and "," in name:
            raise ValueError("one agent program only; a chain of them is the setting `agents`")
        return name

    @field_validator("prices")
    @classmethod
    def _are_prices(cls, prices: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        for program, price in prices.items():
            check_price(program, price)
        return prices

    @field_validator("agents")
    @classmethod
    def _is_a_chain(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        check_chain(names)
        return names

    @property
    def has_budget(self) -> bool:
        """Tell whether any budget is set."""
        return any(getattr(self, name) is not None for name in _BUDGETS)

    def naming_retries(self, max_retries: int) -> Settings:
        """Return them for who names this: breakers hold it up only where they are set, too."""
        off = {name: 0 for name in BREAKERS if name not in self.model_fields_set}
        return self.model_copy(update={"max_retries": max_retries, **off})

    def for_task(self, task: Task) -> Settings:
        """Return them with what the task itself names of them."""
        return self if task.max_retries is None else self.naming_retries(task.max_retries)

    def policy(self, task: Task, programs: tuple[str, ...] = ()) -> Policy:
        """Return the numbers that decisions about this task go by, done by one of `programs`."""
        of_task = self.for_task(task)
        return Policy(
            programs=programs,
            breaker_cooldown=self.breaker_cooldown,
            limit_interval=self.limit_interval,
            limit_margin=self.limit_margin,
            limit_patience=self.limit_patience,
            trouble_interval=self.trouble_interval,
            max_troubles=self.max_provider_failures,
            max_retries=of_task.max_retries,
            own_retries=task.max_retries is not None,
            max_attempts=self.max_attempts,
            retry_interval=self.retry_interval,
            retry_interval_cap=self.retry_interval_cap,
            blocked_timeout=self.blocked_timeout,
            pr_merge_timeout=self.pr_merge_timeout,
            pr_reminder=0.0 if "pr_merge_timeout" in self.model_fields_set else self.pr_reminder,
            stuck_limit=of_task.stuck_limit,
            same_gate_limit=of_task.same_gate_limit,
            ci_fix_limit=self.ci_fix_limit,
            resolves=self.on_conflict == "agent",
            conflict_limit=self.conflict_limit,
            max_faults=self.max_environment_failures,
            has_gates=bool(task.verify or self.verify),
            review_summaries=self.review_summaries,
            reviews=bool(self.review_of(task)),
            review_rounds=self.review_rounds,
            review_severity=self.review_severity,
            seed=zlib.crc32(task.id.encode()),
        )

    def verify_of(self, task: Task) -> tuple[str, ...]:
        """Return the task's own verify commands, else the general ones."""
        return task.verify or self.verify

    def review_of(self, task: Task) -> str:
        """Return who reviews a task; empty for nobody."""
        return self.review_by if task.review_by is None else task.review_by

    def setup_of(self, task: Task) -> tuple[str, ...]:
        """Return the task's own set-up commands, which may be none, else the general ones."""
        return self.setup if task.setup is None else task.setup


def checked_settings(given: Mapping[str, object]) -> Settings:
    """Return settings given by their names; SettingsError says which is unknown or impossible."""
    for name in given:
        if name not in Settings.model_fields:
            near = get_close_matches(name, Settings.model_fields, n=1)
            lists = "`loopwright schema settings` lists all"
            hint = f"did you mean {near[0]!r}?" if near else lists
            raise SettingsError(f"{name} is not a setting; {hint}")
    try:
        return Settings.model_validate(dict(given))
    except ValidationError as problem:
        told = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problem.errors())
        raise SettingsError("; ".join(told)) from problem


_SCOPES = ("", "plan_", "day_", "repos_day_")
_BUDGETS = tuple(f"{scope}budget_{unit}" for scope in _SCOPES for unit in UNITS)
