"""The summaries of one lifecycle: those its attempts began with, and the next one as it would be.

Renders what the runner would render, from the same facts, and changes nothing but a person's own
text. Must not decide when an attempt starts.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from communication.mailbox import Mailbox
from lifecycle.base_commits import is_done
from lifecycle.context.collect import snapshot_of
from lifecycle.context.snapshot import MAX_SUMMARY_BYTES, ContextBuilder
from lifecycle.machine.states import ACTIVE, TERMINAL, Completed, Suspended
from lifecycle.mask_values import masked
from lifecycle.paths import Paths
from lifecycle.setup.agent_workspace import COMM_FILE, look_up
from lifecycle.working_copy import load
from orchestrator.errors import OrchestratorError
from runtime.private_files import make_private
from runtime.workspace import WorkspaceManager
from runtime.workspaces.worktrees_dir import worktrees_dir
from templates.fence import unmarked
from templates.renderer import Renderer

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.record import AgentLifecycle
    from lifecycle.settings import Settings
    from lifecycle.store.sqlite.store import SqliteStore
    from lifecycle.working_copy import LocalCopy
    from orchestrator.wording.json_forms import SummaryForm
    from runtime.masking.masker import Masker


class SummaryError(OrchestratorError):
    """There is no such summary, or it cannot be changed."""


@dataclass(frozen=True, slots=True)
class ShownSummary:
    """A summary and its source."""

    attempt: int
    text: str
    path: Path | None
    """The file an attempt began with; None for one that is still to be written."""
    edited: bool
    """It contains, or will contain, a person's text."""

    def form(self, agent_id: str) -> SummaryForm:
        """Return it as `--json` and the API give it."""
        return {
            "agent_id": agent_id,
            "attempt": self.attempt,
            "path": str(self.path) if self.path is not None else None,
            "edited": self.edited,
            "text": self.text,
        }


class Summaries:
    """The summaries of one lifecycle."""

    def __init__(
        self,
        repo: Path,
        store: SqliteStore,
        record: AgentLifecycle,
        settings: Settings,
        masker: Masker,
    ) -> None:
        self._repo, self._store, self._record, self._settings = repo, store, record, settings
        self._masker = masker
        self._paths = Paths.of(repo)

    @property
    def next_attempt(self) -> int | None:
        """The attempt whose summary can still be changed; None when there will be no other."""
        state = self._record.work
        state = state.inner if isinstance(state, Suspended) else state
        if state is None or isinstance(state, TERMINAL):
            return None
        return state.tally.attempt + isinstance(state, ACTIVE)

    def written(self) -> list[int]:
        """Return the attempts that began with a summary."""
        folder = self._paths.summary(self._record.agent_id, 0).parent
        stems = [path.stem for path in folder.glob("*.md")]
        return sorted(int(stem) for stem in stems if stem.isdigit())

    async def show(self, attempt: int | None, *, at: float) -> ShownSummary:
        """Return the summary of an attempt; by default the next one's, or the present one's."""
        there, agent_id = self.written(), self._record.agent_id
        waits = self._waits()
        if attempt is None:
            attempt = self.next_attempt if waits else max(there, default=None)
        if waits and attempt is not None and attempt == self.next_attempt:
            text = await self._render(attempt, at)
            edited = self._paths.edited(agent_id, attempt).exists()
            return ShownSummary(attempt=attempt, text=text, path=None, edited=edited)
        if attempt is None or attempt not in there:
            known = ", ".join(map(str, there)) or "none yet"
            which = "any attempt" if attempt is None else f"attempt {attempt}"
            raise SummaryError(
                f"there is no summary of {which} of {agent_id}; there are those of: {known}"
            )
        path = self._paths.summary(agent_id, attempt)
        text = path.read_text("utf-8", errors="replace")
        edited = self._paths.edited(agent_id, attempt).exists()
        return ShownSummary(attempt=attempt, text=text, path=path, edited=edited)

    def compare(self, shown: ShownSummary) -> tuple[int | None, str]:
        """Return the number of the summary before, and what is different since then."""
        earlier = [attempt for attempt in self.written() if attempt < shown.attempt]
        if not earlier:
            return None, ""
        before = self._paths.summary(self._record.agent_id, earlier[-1])
        lines = difflib.unified_diff(
            unmarked(before.read_text("utf-8", errors="replace")).splitlines(),
            unmarked(shown.text).splitlines(),
            f"attempt {earlier[-1]}",
            f"attempt {shown.attempt}",
            lineterm="",
        )
        return earlier[-1], "\n".join(lines)

    async def to_edit(self, *, at: float) -> str:
        """Return what a person begins to edit."""
        edited = self._edited()
        if edited.exists():
            return edited.read_text("utf-8", errors="replace")
        return (await self.show(None, at=at)).text

    def edit(self, text: str) -> Path | None:
        """Keep a person's text for the next attempt; an empty one takes it back."""
        path = self._edited()
        if not text.strip():
            path.unlink(missing_ok=True)
            return None
        text = self._masker.mask(text)
        size = len(text.encode(errors="replace"))
        if size > MAX_SUMMARY_BYTES:
            raise SummaryError(
                f"the text has {size} bytes, and a summary at most {MAX_SUMMARY_BYTES}; shorten it"
            )
        make_private(path.parent)
        fresh = path.with_name(f".{path.name}.new")
        fresh.write_text(text, "utf-8", errors="replace")
        fresh.replace(path)
        return path

    def _edited(self) -> Path:
        attempt = self.next_attempt
        if attempt is None:
            raise SummaryError(
                f"{self._record.agent_id} is {self._record.state}: no attempt follows whose "
                "summary could be edited"
            )
        return self._paths.edited(self._record.agent_id, attempt)

    def _waits(self) -> bool:
        state = self._record.work
        return self.next_attempt is not None and not isinstance(state, (*ACTIVE, Completed))

    async def _render(self, attempt: int, at: float) -> str:
        local = await load(self._store, self._record)
        mailbox = await self._look(local)
        edited = self._paths.edited(self._record.agent_id, attempt)
        builder = ContextBuilder(Renderer(self._paths.templates, mask=self._masker.mask))
        snapshot = snapshot_of(
            local,
            builder=builder,
            settings=self._settings,
            at=at,
            completed=await self._completed(),
            mail=mailbox.load() if mailbox is not None else None,
            person_summary=edited.read_text("utf-8") if edited.exists() else None,
        )
        return builder.render(masked(snapshot, self._masker))

    async def _look(self, local: LocalCopy) -> Mailbox | None:
        """Read from the workspace what the runner would read; without one there is nothing yet."""
        root = worktrees_dir(self._repo, self._settings.worktrees_dir)
        workspaces = WorkspaceManager(self._repo, root=root)
        workspace = await workspaces.open(local.agent_id)
        if workspace is None or not (workspace.path / ".git").exists():
            return None
        await look_up(workspaces, local, workspace, await workspaces.status(workspace))
        return Mailbox(workspace.path / COMM_FILE)

    async def _completed(self) -> dict[str, str]:
        return {
            record.task_id: str(record.facts.get("task", {}).get("title", ""))
            async for record in self._store.every()
            if record.task_id and is_done(record.work)
        }
