"""The summaries of one lifecycle: those its attempts began with, and the next one as it would be.

Renders what the runner would render, from the same facts, and changes nothing but a person's own
text. Must not decide when an attempt starts.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from communication.mailbox import Mailbox
from lifecycle.base_commits import is_done
from lifecycle.context.collect import snapshot_of
from lifecycle.context.snapshot import MAX_SUMMARY_BYTES, ContextBuilder
from lifecycle.machine.states import ACTIVE, TERMINAL, Completed, Suspended
from lifecycle.mask_values import masked
from lifecycle.paths import Paths
from lifecycle.setup.agent_workspace import COMM_FILE, look_up
from lifecycle.working_copy import load
from orchestrator.config.known_secrets import masker_of
from orchestrator.config.settings import load_settings
from orchestrator.control.open_store import known, store_of
from orchestrator.errors import OrchestratorError
from runtime.branches import BranchManager
from runtime.private_files import make_private
from runtime.workspace import WorkspaceManager
from runtime.workspaces.worktrees_dir import worktrees_dir
from templates.fence import unmarked
from templates.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from lifecycle.audit import Audit
    from lifecycle.context.snapshot import ContextSnapshot
    from lifecycle.record import AgentLifecycle
    from lifecycle.settings import Settings
    from lifecycle.store.sqlite.store import SqliteStore
    from lifecycle.working_copy import LocalCopy
    from orchestrator.wording.json_forms import EditForm, SectionForm, SummaryForm
    from runtime.masking.masker import Masker


HELD = "its summary is to be read first"
"""Why an attempt is held, where nobody says another reason."""
EDIT = "summary edit"
"""What the audit calls a person's change of a summary."""
_HEADING = re.compile(r"^(#{1,2}) +(.+)$", re.MULTILINE)
_OPENS = re.compile(r"^<<<(?:data|text) ", re.MULTILINE)
_CLOSES = re.compile(r"^>>>(?:data|text) ", re.MULTILINE)
_SEARCHED = 5000
"""Newest entries of the audit that are searched for edits."""


class SummaryError(OrchestratorError):
    """There is no such summary, or it cannot be changed."""


class SummaryMovedError(SummaryError):
    """The summary is not the one any more that its editor had before him."""


@dataclass(frozen=True, slots=True)
class ShownSummary:
    """A summary and its source."""

    attempt: int
    text: str
    path: Path | None
    """The file an attempt began with; None for one that is still to be written."""
    edited: bool
    """It contains, or will contain, a person's text."""

    @property
    def version(self) -> str:
        """Tells this text from another; the markers of quotes, which differ each time, apart."""
        return hashlib.sha256(unmarked(self.text).encode(errors="replace")).hexdigest()[:16]

    def form(self, agent_id: str) -> SummaryForm:
        """Return it as `--json` and the API give it."""
        return {
            "agent_id": agent_id,
            "attempt": self.attempt,
            "path": str(self.path) if self.path is not None else None,
            "edited": self.edited,
            "text": self.text,
            "version": self.version,
            "bytes": _size(self.text),
            "most_bytes": MAX_SUMMARY_BYTES,
            "sections": sections(self.text),
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
        self.masker = masker
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
        waits = self.waits
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

    def compare(self, shown: ShownSummary, against: int | None = None) -> tuple[int | None, str]:
        """Return the number of an earlier summary, and what is different since then.

        Compared is with the one right before it, unless another is named.
        """
        earlier = [attempt for attempt in self.written() if attempt < shown.attempt]
        if against is not None and against not in earlier:
            raise SummaryError(f"there is no summary of attempt {against} before this one")
        if not earlier:
            return None, ""
        number = earlier[-1] if against is None else against
        before = self._paths.summary(self._record.agent_id, number)
        lines = difflib.unified_diff(
            unmarked(before.read_text("utf-8", errors="replace")).splitlines(),
            unmarked(shown.text).splitlines(),
            f"attempt {number}",
            f"attempt {shown.attempt}",
            lineterm="",
        )
        return number, "\n".join(lines)

    async def snapshot(self, attempt: int, *, at: float) -> dict[str, Any]:
        """Return the facts that a summary is made of."""
        if self._is_next(attempt):
            return (await self._captured(attempt, at)).model_dump(mode="json")
        found = self._read(self._paths.snapshot(self._record.agent_id, attempt))
        told = json.loads(found) if found else None
        if not isinstance(told, dict):
            raise SummaryError(f"no facts of attempt {attempt} are kept")
        return told

    async def prompt(self, attempt: int, *, at: float) -> str:
        """Return all that an attempt reads on its standard input, or would read now."""
        if self._is_next(attempt):
            snapshot = await self._captured(attempt, at)
            agent = self._record.agent_id
            summary = self._paths.summary(agent, attempt)
            root = worktrees_dir(self._repo, self._settings.worktrees_dir)
            comm = root / agent / COMM_FILE
            builder = self._builder()
            return builder.prompt(snapshot, comm_file=str(comm), summary_file=str(summary))
        found = self._read(self._paths.prompt(self._record.agent_id, attempt))
        if found is None:
            raise SummaryError(f"no prompt of attempt {attempt} is kept")
        return found

    async def replace(
        self, text: str, audit: Audit, *, by: str, at: float, version: str | None = None
    ) -> Path | None:
        """Keep a person's text for the next attempt, and record who wrote it.

        With a version, only if the text is still the one that has it. An empty text takes back
        what a person wrote.
        """
        if version is not None:
            present = (await self.to_come(at=at)).version
            if version != present:
                raise SummaryMovedError(
                    "the summary changed meanwhile; look at it as it is now, and edit that"
                )
        path = self.edit(text)
        told = self.masker.mask(text)
        details = {"attempt": self.next_attempt, "bytes": _size(told), "text": told}
        outcome = "done" if path else "taken back"
        await audit.record(EDIT, by, self._record.agent_id, outcome, details=details)
        return path

    async def edits(self) -> list[EditForm]:
        """Return who wrote what for this lifecycle's attempts, the oldest first."""
        entries = await self._store.trail.entries(limit=_SEARCHED, newest=True)
        agent, since = self._record.agent_id, self._record.created_at
        found = [
            (each, json.loads(each.details))
            for each in entries
            if each.action == EDIT and each.subject == agent and each.outcome != "refused"
            if each.at >= since
        ]
        return [
            {
                "at": each.at,
                "by": each.actor,
                "attempt": int(told.get("attempt") or 0),
                "bytes": int(told.get("bytes") or 0),
                "text": str(told.get("text") or ""),
            }
            for each, told in found
        ]

    def _is_next(self, attempt: int) -> bool:
        return self.waits and attempt == self.next_attempt

    def _read(self, path: Path) -> str | None:
        try:
            return path.read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return None

    async def to_come(self, *, at: float) -> ShownSummary:
        """Return the next attempt's summary, which may be only a person's text as yet."""
        if self.waits or self.next_attempt is None:
            return await self.show(self.next_attempt, at=at)
        path = self._edited()
        text = self._read(path)
        attempt = self.next_attempt
        return ShownSummary(attempt=attempt, text=text or "", path=None, edited=text is not None)

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
        text = self.masker.mask(text)
        size = _size(text)
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

    @property
    def waits(self) -> bool:
        """Whether the next attempt has not begun, so that its summary can be seen."""
        state = self._record.work
        return self.next_attempt is not None and not isinstance(state, (*ACTIVE, Completed))

    async def _render(self, attempt: int, at: float) -> str:
        return self._builder().render(await self._captured(attempt, at))

    def _builder(self) -> ContextBuilder:
        return ContextBuilder(Renderer(self._paths.templates, mask=self.masker.mask))

    async def _captured(self, attempt: int, at: float) -> ContextSnapshot:
        local = await load(self._store, self._record)
        mailbox = await self._look(local)
        edited = self._paths.edited(self._record.agent_id, attempt)
        snapshot = snapshot_of(
            local,
            builder=self._builder(),
            settings=self._settings,
            at=at,
            completed=await self._completed(),
            mail=mailbox.load() if mailbox is not None else None,
            person_summary=edited.read_text("utf-8") if edited.exists() else None,
        )
        return masked(snapshot, self.masker)

    async def _look(self, local: LocalCopy) -> Mailbox | None:
        """Read from the workspace what the runner would read; without one there is nothing yet."""
        root = worktrees_dir(self._repo, self._settings.worktrees_dir)
        workspaces = WorkspaceManager(self._repo, root=root)
        workspace = await workspaces.open(local.agent_id)
        if workspace is None or not (workspace.path / ".git").exists():
            return None
        branches, status = BranchManager(self._repo), await workspaces.status(workspace)
        await look_up(workspaces, branches, local, workspace, status)
        return Mailbox(workspace.path / COMM_FILE)

    async def _completed(self) -> dict[str, str]:
        return {
            record.task_id: str(record.facts.get("task", {}).get("title", ""))
            async for record in self._store.every()
            if record.task_id and is_done(record.work)
        }


def sections(text: str) -> list[SectionForm]:
    """Return the parts of a summary under their headings, with the bytes of each, in order."""
    cuts = [found for found in _HEADING.finditer(text) if not _is_quoted(text, found.start())]
    starts = [found.start() for found in cuts]
    names = [found[2].strip() for found in cuts]
    if not starts or starts[0] > 0:
        starts, names = [0, *starts], ["Beginning", *names]
    ends = [*starts[1:], len(text)]
    return [
        {"name": name, "bytes": _size(text[start:end])}
        for name, start, end in zip(names, starts, ends, strict=True)
        if end > start
    ]


def _is_quoted(text: str, place: int) -> bool:
    """Tell whether a place is between the lines of a fence."""
    before = text[:place]
    return len(_OPENS.findall(before)) > len(_CLOSES.findall(before))


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


@asynccontextmanager
async def opened_summaries(
    repo: Path, agent: str, environ: Mapping[str, str]
) -> AsyncIterator[tuple[SqliteStore, AgentLifecycle, Summaries]]:
    """Open the records for one agent, which may be named by its task."""
    settings = load_settings(repo, environ=environ)
    masker = masker_of(environ, settings.pass_env)
    async with store_of(repo) as store:
        record = await known(store, agent, repo)
        yield store, record, Summaries(repo, store, record, settings, masker)
