"""What the next attempt is told: the facts at a breakpoint, and the texts made from them.

Owns the snapshot's form and the size of the summary. Gathers nothing itself: no git, no clock, no
files; the caller hands in what it found. The wording lives in the templates.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from lifecycle.context.facts import (
    AnswerFact,
    Blocker,
    CIFacts,
    CommitFact,
    Communications,
    Dependency,
    Excerpt,
    Fact,
    FileChangeFact,
    GateResult,
    Guidance,
    LedgerEntry,
    Merge,
    OutcomeFact,
    RemarkFact,
    SavedWorkFact,
    TaskFacts,
    Text,
)
from lifecycle.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from lifecycle.plan import Task
    from templates.renderer import Renderer

SCHEMA_VERSION = 1
MAX_SUMMARY_BYTES = 16 * 1024
_MIN_SUMMARY_BYTES = 1024
_MAX_ATTEMPTS = 200
_MAX_FILES = 500
_MAX_COMMITS = 50


class _GitFacts(Fact):
    branch: Text = ""
    base_branch: Text = ""
    base_commit: Text = ""
    head_commit: Text = ""
    recent_commits: tuple[CommitFact, ...] = ()
    changed_files: tuple[FileChangeFact, ...] = ()
    dirty_files: tuple[FileChangeFact, ...] = ()
    saved_work: SavedWorkFact | None = None
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
    last_outcome: OutcomeFact | None = None
    gates: tuple[GateResult, ...] = ()
    red_before: tuple[Text, ...] = ()
    """Verify commands that failed before any work, and did not succeed since."""
    flagged_files: tuple[Text, ...] = ()
    """Tests and gates the agent itself changed."""
    ci: CIFacts | None = None
    answer: AnswerFact | None = None
    guidance: tuple[Guidance, ...] = ()
    remarks: tuple[RemarkFact, ...] = ()
    """Of reviewers, since the latest agent was started."""
    merges: tuple[Merge, ...] = ()
    """What has to be merged into the agent's branch; only the first can stand begun."""
    between: tuple[Text, ...] = ()
    """What came into the base since the work was judged, where it does not go together with it."""
    ledger: tuple[LedgerEntry, ...] = ()
    """Oldest first; attempts before these are only counted, in `folded_attempts`."""
    folded_attempts: dict[Text, int] = Field(default_factory=dict)
    """How those ended, counted."""
    folded_alike: int = 0
    """How many of those, right before the oldest in the ledger, ended in the same way as that."""
    last_words: Excerpt = ""
    omitted: dict[Text, int] = Field(default_factory=dict)
    """What was too much for the snapshot itself: kind and number."""
    person_summary: Text | None = None
    """A person's own text; it replaces the rendered summary."""


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
        folded: Mapping[str, int] | None = None,
        depends_on: Collection[str] = (),
        **facts: Any,  # each as the field of its name says
    ) -> ContextSnapshot:
        """Assemble a snapshot; `completed` and `titles` are about the task's dependencies.

        `depends_on` are tasks that the agent itself said it depends on; `folded` are attempts
        before those of the ledger, by how they ended. All else is named, and checked, as the fields
        of `ContextSnapshot` are.

        Long lists are cut here already (the newest attempts and commits stay), so that neither a
        snapshot nor the work on it grows with the history.
        """
        if unknown := sorted(facts.keys() - ContextSnapshot.model_fields.keys()):
            raise TypeError(f"a snapshot holds no {', '.join(unknown)}")
        names = titles or {}
        needed = [
            Dependency(id=wanted, title=names.get(wanted, ""), said=wanted not in task.dependencies)
            for wanted in dict.fromkeys((*task.dependencies, *depends_on))
        ]
        entries = tuple(ledger)
        cut = {**facts}
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
        older = Counter(folded or {})
        older.update(entry.outcome for entry in entries[:-_MAX_ATTEMPTS])
        return ContextSnapshot(
            agent_id=agent_id,
            task_id=task.id,
            task=TaskFacts.model_validate(task),
            attempt=attempt,
            captured_at=captured_at,
            dependencies_done=tuple(d for d in needed if d.id in completed),
            dependencies_pending=tuple(d for d in needed if d.id not in completed),
            ledger=entries[-_MAX_ATTEMPTS:],
            folded_attempts=dict(older),
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
