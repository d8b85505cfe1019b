"""Every setting of the loop, its default, its range and its meaning.

Where the values come from (command line, environment, files) is not decided here.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from lifecycle.machine.policy import Policy

if TYPE_CHECKING:
    from lifecycle.plan import Task


class Settings(BaseModel):
    """One reading of the settings; a new attempt is made by a new reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_retries: int = Field(100, ge=1, le=1_000_000)
    """Failed attempts after which a lifecycle is given up."""
    max_attempts: int = Field(1000, ge=1, le=1_000_000)
    """Attempts of any kind after which a lifecycle is given up."""
    retry_interval: float = Field(30.0, ge=0, le=86_400)
    """Seconds before the next attempt after a failed one; also how often blockers are looked at."""
    retry_interval_cap: float = Field(600.0, ge=0, le=604_800)
    """Seconds that the growing wait between alike failures never exceeds."""
    breakpoint_check_interval: float = Field(1.0, gt=0, le=3600)
    """Seconds between two looks at communications.json beside the watcher."""
    blocked_timeout: float = Field(86_400.0, gt=0)
    """Seconds that a blocked lifecycle, or a question, waits before the loop ends with BLOCKED."""
    pr_merge_timeout: float = Field(3600.0, gt=0)
    """Seconds to wait for the merge of a pull request."""
    stuck_limit: int = Field(5, ge=2)
    """Alike failures in a row on an unchanged tree after which a lifecycle is given up."""
    max_environment_failures: int = Field(10, ge=0)
    """Failures in a row that are not the agent's after which a lifecycle is given up."""
    wall_limit: float = Field(14_400.0, ge=0)
    """Seconds an attempt may take; 0 for no limit."""
    idle_limit: float = Field(1800.0, ge=0)
    """Seconds an attempt may show no output, no file change and no CPU use; 0 for no limit."""
    stop_grace: float = Field(10.0, ge=0, le=600)
    """Seconds between asking an agent to end and ending it."""
    gate_timeout: float = Field(1800.0, gt=0)
    """Seconds a verify or test command may take."""
    baseline: bool = True
    """Run the verify commands before the first attempt, to tell old failures from new ones."""
    verify_clean: bool = False
    """Run the verify commands on the committed files alone, laid out without .git and without what
    git ignores; else in the workspace, where ignored files (caches, builds, .env) may help them."""
    review_summaries: bool = False
    """Hold each attempt until a person approved its summary."""
    max_live_agents: int = Field(4, ge=1, le=10_000)
    """Agent processes alive at once; waiting lifecycles hold none."""
    isolation: Literal["process", "container"] = "process"
    """How agents are kept apart: by a session of their own, or in a box; see docs/isolation.md."""
    network: Literal["allow", "none"] = "allow"
    """Whether agents reach the network, which most need for their model."""
    memory_limit_mb: int | None = Field(None, ge=16, le=4_194_304)
    """Memory in MB of an agent's whole process tree."""
    cpu_limit_percent: int | None = Field(None, ge=1, le=100_000)
    """Processor time of the whole tree, in per cent of one core."""
    process_limit: int | None = Field(None, ge=1, le=4_194_304)
    """Processes and threads of the whole tree at once."""
    open_file_limit: int | None = Field(None, ge=16, le=1_048_576)
    """Open files of each of an agent's processes."""
    allow_weaker: bool = False
    """Start agents also where this machine cannot give a level or a limit as asked; it is said."""
    box_engine: Literal["bubblewrap", "podman", "docker"] | None = None
    """What makes the box; by default the first of these that works."""
    box_image: str = ""
    """For podman and docker: the image with the agent's program."""
    box_readable: tuple[str, ...] = ()
    """Paths that an agent in a box may read too; relative ones begin at the repository."""
    box_writable: tuple[str, ...] = ()
    """Paths that an agent in a box may write too."""
    box_login: str = ""
    """Whose sign-in is shown inside, read-only: claude, codex, gemini, opencode, or a path."""
    log_cap_bytes: int = Field(10 * 1024 * 1024, ge=4096)
    """Size of an attempt's log; of more the head and the tail are kept."""
    retention_hours: float = Field(24.0, ge=0)
    """Hours that accepted and rejected records, their logs and snapshots are kept."""
    auto_merge: bool = False
    """Let the local provider merge a pull request by itself once its checks are green."""
    test_command: str | None = None
    """What local CI runs on each commit."""
    command: tuple[str, ...] = ()
    """The agent's program and arguments where a plan or the command line names none."""
    adapter: str | None = None
    """The agent program by name, instead of a command."""
    pass_env: tuple[str, ...] = ()
    """Names of the runner's variables that agents get too, such as ANTHROPIC_API_KEY."""
    verify: tuple[str, ...] = ()
    """Verify commands of tasks that name none."""

    def policy(self, task: Task) -> Policy:
        """Return the numbers that decisions about this task go by."""
        return Policy(
            max_retries=self.max_retries,
            max_attempts=self.max_attempts,
            retry_interval=self.retry_interval,
            retry_interval_cap=self.retry_interval_cap,
            blocked_timeout=self.blocked_timeout,
            pr_merge_timeout=self.pr_merge_timeout,
            stuck_limit=self.stuck_limit,
            max_faults=self.max_environment_failures,
            has_gates=bool(task.verify or self.verify),
            review_summaries=self.review_summaries,
            seed=zlib.crc32(task.id.encode()),
        )

    def verify_of(self, task: Task) -> tuple[str, ...]:
        """Return the task's own verify commands, else the general ones."""
        return task.verify or self.verify
