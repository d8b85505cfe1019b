"""What the next attempt is told: the facts at a breakpoint, and the texts made from them.

Owns the snapshot's form and the size of the summary. Gathers nothing itself: no git, no clock, no
files; the caller hands in what it found. The wording lives in the templates.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from lifecycle.errors import SettingsError
from templates.fence import cap

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Unpack

    from lifecycle.plan import Task
    from templates.renderer import Renderer

SCHEMA_VERSION = 1
MAX_SUMMARY_BYTES = 16 * 1024
_MIN_SUMMARY_BYTES = 1024
_MAX_EXCERPT = 16 * 1024
_MAX_ATTEMPTS = 200
_MAX_FILES = 500
_MAX_COMMITS = 50


def _storable(value: object) -> object:
    """Show bytes that are no UTF-8 (file names may hold them) so that JSON can carry them."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def _excerpt(value: object) -> object:
    value = _storable(value)
    return cap(value, _MAX_EXCERPT) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_storable)]
Excerpt = Annotated[str, BeforeValidator(_excerpt)]


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, from_attributes=True, allow_inf_nan=False)


class TaskFacts(_Facts):
    """The task as it was when the snapshot was taken."""

    id: Text
    title: Text = ""
    description: Text = ""
    acceptance: tuple[Text, ...] = ()
    verify: tuple[Text, ...] = ()
    dependencies: tuple[Text, ...] = ()


class Commit(_Facts):
    """One commit of the agent's branch."""

    sha: Text
    subject: Text = ""


class FileChange(_Facts):
    """One file that differs, and how: added, modified, deleted, renamed, ..."""

    path: Text
    kind: Text = "modified"


class SavedWork(_Facts):
    """Uncommitted work kept under a ref before a process was stopped."""

    ref: Text
    files: tuple[Text, ...] = ()


class Dependency(_Facts):
    """Another task this one needs."""

    id: Text
    title: Text = ""
    said: bool = False
    """By the agent itself, when it was blocked; not by the plan."""


class Blocker(_Facts):
    """What the agent waited for, and whether that is over."""

    what: Text
    since: float | None = None
    cleared: bool = False
    how: Text = ""


class Request(_Facts):
    """A message of another agent; `original` is our request it answers, if it answers one."""

    sender: Text
    text: Excerpt
    original: Excerpt = ""


class Communications(_Facts):
    """The agent's own mailbox entry and what others wrote to it."""

    mission: Excerpt = ""
    working_on: Excerpt = ""
    done: Excerpt = ""
    next: Excerpt = ""
    requests: tuple[Request, ...] = ()
    deliveries: tuple[Request, ...] = ()


class Outcome(_Facts):
    """How the last attempt, or the wait after it, ended; the kinds are named in the template."""

    kind: Text
    text: Excerpt = ""
    evidence: Excerpt = ""


class GateResult(_Facts):
    """One verify command, run by the runner on one commit."""

    command: Text
    ok: bool
    code: int | None = None
    excerpt: Excerpt = ""
    failed_before: bool | None = None
    """It failed already on the untouched code, before the first attempt; None: not known."""
    at_commit: Text = ""


class FailedCheck(_Facts):
    """One red check of the outside world."""

    name: Text
    summary: Excerpt = ""
    excerpt: Excerpt = ""
    url: Text = ""


class PullRequest(_Facts):
    """The agent's pull request."""

    url: Text
    number: int | None = None
    state: Text = ""


class Remark(_Facts):
    """What a reviewer wrote: where, and who."""

    where: Text
    excerpt: Excerpt = ""
    url: Text = ""


class CIFacts(_Facts):
    """What CI says about one commit, and the pull request it belongs to."""

    status: Text = "none"
    sha: Text = ""
    failed: tuple[FailedCheck, ...] = ()
    pr: PullRequest | None = None


class Answer(_Facts):
    """A person's answer to the agent's question."""

    answer: Excerpt
    question: Excerpt = ""
    by: Text = ""
    attempt: int = 0
    """Which attempt asked."""


class Guidance(_Facts):
    """Something a person wants the next attempt to know."""

    text: Excerpt
    by: Text = ""


class LedgerEntry(_Facts):
    """One earlier attempt: what it tried and how it ended."""

    attempt: int
    outcome: Text
    started_at: float | None = None
    seconds: float | None = None
    breakpoint_type: Text | None = None
    summary: Excerpt = ""
    """The agent's own words."""
    error: Excerpt = ""
    head_before: Text = ""
    head_after: Text = ""
    commits: int = 0
    files_changed: int = 0
    program: Text = ""
    """Which agent program it was, if it is one that reports."""
    tool_calls: int = 0
    tokens: int = 0


class Merge(_Facts):
    """A merge that the next attempt is to finish, or to begin."""

    commit: Text
    begun: bool = False
    """It stands begun in the workspace."""
    conflicts: tuple[Text, ...] = ()
    ours: tuple[Commit, ...] = ()
    """Commits that only the agent's branch holds."""
    theirs: tuple[Commit, ...] = ()


class _GitFacts(_Facts):
    branch: Text = ""
    base_branch: Text = ""
    base_commit: Text = ""
    head_commit: Text = ""
    recent_commits: tuple[Commit, ...] = ()
    changed_files: tuple[FileChange, ...] = ()
    dirty_files: tuple[FileChange, ...] = ()
    saved_work: SavedWork | None = None
    workspace_path: Text = ""


class ContextSnapshot(_GitFacts):
    """All that is known about a lifecycle between two attempts; round-trips through JSON."""

    schema_version: int = SCHEMA_VERSION
    agent_id: Text
    task_id: Text
    task: TaskFacts
    attempt: int = 0
    """The attempt that just ended; 0 before the first."""
    next_attempt: int = 1
    captured_at: float
    status: Text = "queued"
    progress: Excerpt = ""
    notes: tuple[Text, ...] = ()
    dependencies_done: tuple[Dependency, ...] = ()
    dependencies_pending: tuple[Dependency, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    block_reason: Excerpt = ""
    """Why an attempt was blocked, in its words."""
    blocked_attempt: int = 0
    """Which attempt that was."""
    communications: Communications | None = None
    retry_count: int = 0
    max_retries: int = 100
    spawn_count: int = 0
    interruptions: int = 0
    last_outcome: Outcome | None = None
    gates: tuple[GateResult, ...] = ()
    red_before: tuple[Text, ...] = ()
    """Verify commands that failed before any work, and did not succeed since."""
    flagged_files: tuple[Text, ...] = ()
    """Tests and gates the agent itself changed."""
    ci: CIFacts | None = None
    answer: Answer | None = None
    guidance: tuple[Guidance, ...] = ()
    remarks: tuple[Remark, ...] = ()
    """Of reviewers, since the latest agent was started."""
    merges: tuple[Merge, ...] = ()
    """What has to be merged into the agent's branch; only the first can stand begun."""
    between: tuple[Text, ...] = ()
    """What came into the base since the work was judged, where it does not go together with it."""
    ledger: tuple[LedgerEntry, ...] = ()
    """Oldest first; attempts before these are only counted, in `folded_attempts`."""
    folded_attempts: dict[Text, int] = Field(default_factory=dict)
    last_words: Excerpt = ""
    omitted: dict[Text, int] = Field(default_factory=dict)
    """What was too much for the snapshot itself: kind and number."""
    person_summary: Text | None = None
    """A person's own text; it takes the place of the rendered summary."""


class Facts(TypedDict, total=False):
    """What `capture` takes beside the identity; each as the field of `ContextSnapshot` says."""

    next_attempt: int
    status: str
    progress: str
    branch: str
    base_branch: str
    base_commit: str
    head_commit: str
    recent_commits: Iterable[Commit]
    changed_files: Iterable[FileChange]
    dirty_files: Iterable[FileChange]
    saved_work: SavedWork | None
    workspace_path: str
    notes: Iterable[str]
    blockers: Iterable[Blocker]
    block_reason: str
    blocked_attempt: int
    communications: Communications | None
    retry_count: int
    max_retries: int
    spawn_count: int
    interruptions: int
    last_outcome: Outcome | None
    gates: Iterable[GateResult]
    red_before: Iterable[str]
    flagged_files: Iterable[str]
    ci: CIFacts | None
    answer: Answer | None
    guidance: Iterable[Guidance]
    remarks: Iterable[Remark]
    merges: Iterable[Merge]
    between: Iterable[str]
    last_words: str
    person_summary: str | None


class Handout(NamedTuple):
    """The texts an attempt is started with."""

    summary: str
    prompt: str


class Ways(NamedTuple):
    """How an agent can signal beside the file and the command on its PATH."""

    tool: str = ""
    """Under which name it sees our tool; '' where it has none."""
    command: str = ""
    """Where our command is."""


NO_WAYS = Ways()


class ContextBuilder:
    """Makes snapshots from facts, and the summary and the prompt from snapshots."""

    def __init__(
        self, renderer: Renderer | None = None, *, max_bytes: int = MAX_SUMMARY_BYTES
    ) -> None:
        if max_bytes < _MIN_SUMMARY_BYTES:
            raise SettingsError(
                f"a summary of at most {max_bytes} bytes can say nothing useful; "
                f"allow at least {_MIN_SUMMARY_BYTES}"
            )
        self._given = renderer
        self._max_bytes = max_bytes

    def capture(  # noqa: PLR0913  # all by name; the rest is optional facts
        self,
        *,
        task: Task,
        agent_id: str,
        captured_at: float,
        attempt: int = 0,
        completed: Collection[str] = (),
        titles: Mapping[str, str] | None = None,
        ledger: Iterable[LedgerEntry] = (),
        depends_on: Collection[str] = (),
        **facts: Unpack[Facts],
    ) -> ContextSnapshot:
        """Assemble a snapshot; `completed` and `titles` are about the task's dependencies.

        `depends_on` are tasks that the agent itself said it depends on.

        Long lists are cut here already (the newest attempts and commits stay), so that neither a
        snapshot nor the work on it grows with the history.
        """
        names = titles or {}
        needed = [
            Dependency(id=wanted, title=names.get(wanted, ""), said=wanted not in task.dependencies)
            for wanted in dict.fromkeys((*task.dependencies, *depends_on))
        ]
        entries = tuple(ledger)
        cut: dict[str, Any] = {**facts}
        omitted: dict[str, int] = {}
        for name, noun, limit in (
            ("changed_files", "changed files", _MAX_FILES),
            ("dirty_files", "uncommitted files", _MAX_FILES),
            ("recent_commits", "commits", _MAX_COMMITS),
        ):
            values = tuple(cut.get(name, ()))
            cut[name] = values[:limit]
            if len(values) > limit:
                omitted[noun] = len(values) - limit
        folded = Counter(entry.outcome for entry in entries[:-_MAX_ATTEMPTS])
        return ContextSnapshot(
            agent_id=agent_id,
            task_id=task.id,
            task=TaskFacts.model_validate(task),
            attempt=attempt,
            captured_at=captured_at,
            dependencies_done=tuple(d for d in needed if d.id in completed),
            dependencies_pending=tuple(d for d in needed if d.id not in completed),
            ledger=entries[-_MAX_ATTEMPTS:],
            folded_attempts=dict(folded),
            omitted=omitted,
            **{"next_attempt": attempt + 1, **cut},
        )

    def render(self, snapshot: ContextSnapshot) -> str:
        """Render the summary: at most `max_bytes` of UTF-8, with what was cut named in it."""
        from templates.pages import summary_page  # noqa: PLC0415  # only who renders pays for Jinja

        return summary_page(self._renderer(), snapshot.model_dump(), self._max_bytes).whole

    def prompt(
        self,
        snapshot: ContextSnapshot,
        *,
        comm_file: str,
        summary_file: str,
        spawn_id: str = "",
        agent_id: str | None = None,
    ) -> str:
        """Render all that the next attempt reads on its standard input.

        The task stands in it whole, once; so the summary inside leaves it out.
        """
        handed = self.handout(
            snapshot,
            comm_file=comm_file,
            summary_file=summary_file,
            spawn_id=spawn_id,
            agent_id=agent_id,
        )
        return handed.prompt

    def handout(  # noqa: PLR0913  # all by name
        self,
        snapshot: ContextSnapshot,
        *,
        comm_file: str,
        summary_file: str,
        spawn_id: str = "",
        agent_id: str | None = None,
        ways: Ways = NO_WAYS,
    ) -> Handout:
        """Render summary and prompt at once, which is half the work of one after the other."""
        from templates.pages import prompt_page, summary_page  # noqa: PLC0415  # as above

        renderer, values = self._renderer(), snapshot.model_dump()
        summary = summary_page(renderer, values, self._max_bytes)
        values |= {
            "agent_id": agent_id or snapshot.agent_id,
            "spawn_id": spawn_id,
            "comm_file": comm_file,
            "summary_file": summary_file,
            "signal_tool": ways.tool,
            "command_path": ways.command,
        }
        return Handout(summary.whole, prompt_page(renderer, values, summary))

    def _renderer(self) -> Renderer:
        if self._given is None:
            from templates.renderer import Renderer  # noqa: PLC0415  # Jinja costs 40 ms to import

            self._given = Renderer()
        return self._given
