"""A real loop in which a real agent program works for a scripted model.

Real git, real SQLite, real processes, the local provider. The program has a home of its own with
the settings that a user would have there; only what leads it to the model server is added.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifecycle.plan import Agent, Task
from lifecycle.store.sqlite.store import SqliteStore
from orchestrator.wording.why import why
from orchestrator.wording.why_facts import WhyContext
from runtime import proc_table
from tests.begun import begun
from tests.lifecycle.world import AGENT, Ground
from tests.models.clis import order
from tests.models.script import Say
from tests.tools.agents.installed import search_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from ci.local.provider import LocalCIProvider
    from lifecycle.result import LoopResult
    from tests.models.conversation import Conversation, Request
    from tests.models.script import Turn

PATIENCE = 110.0
PROGRAMS: Mapping[str, str] = {
    "claude": "claude",
    "codex": "codex:gpt-5.1-codex",
    "gemini": "gemini:gemini-2.5-pro",
    "opencode": "opencode:scripted/m1",
}
"""As a user names each, with its model where it needs one."""
OURS = Path(sys.executable).parent
"""Where `loopwright` is."""
SETTINGS: Mapping[str, Any] = {
    "retry_interval": 0.05,
    "retry_interval_cap": 0.1,
    "breakpoint_check_interval": 0.2,
    "stop_grace": 3.0,
    "gate_timeout": 20.0,
    "max_retries": 3,
    "tool_server": "off",
}
INSTRUCTIONS: Mapping[str, str] = {
    name: f"These are the instructions of the repository ({name}).\n"
    for name in ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
}
PERSONAL: Mapping[str, str] = {
    path: f"These are the instructions of the user ({path}).\n"
    for path in (".claude/CLAUDE.md", ".codex/AGENTS.md", ".gemini/GEMINI.md")
}
PROFILE = {
    # A login shell, such as codex has, begins with a PATH of the system's own.
    ".profile": f'PATH="{OURS}:$PATH"\n',
    ".gitconfig": "[user]\n\tname = Agent\n\temail = agent@example.org\n",
}
_ATTEMPT = re.compile(r"This is attempt (\d+), a fresh process")


class ByAttempt:
    """A model that does something else in each attempt; when that is done it says so.

    A turn that stands alone is played as often as it is asked for.
    """

    def __init__(self, turns: Mapping[int, Sequence[Turn] | Turn]) -> None:
        self._turns = turns
        self.asked: dict[int, list[Request]] = {}
        """What each attempt asked, in order."""

    def __call__(self, request: Request) -> Any:
        found = _ATTEMPT.search(request.words)
        attempt = int(found[1]) if found else 0
        asked = self.asked.setdefault(attempt, [])
        asked.append(request)
        turns = self._turns.get(attempt, ())
        if not isinstance(turns, tuple):
            return turns
        return turns[len(asked) - 1] if len(asked) <= len(turns) else Say("I am done.")


class Real(Ground):
    """One user's repository, the program that works there, and eyes to watch it."""

    def __init__(  # noqa: PLR0913  # what a test may change
        self,
        name: str,
        folder: Path,
        played: Conversation,
        *,
        store: SqliteStore,
        settings: Mapping[str, Any],
        env: dict[str, str],
        args: tuple[str, ...],
        files: Mapping[str, str],
    ) -> None:
        super().__init__(folder, store, settings)
        self.name, self.played = name, played
        self.env, self.args, self.files = env, args, files
        self.home = folder / "home"
        self._run: asyncio.Task[LoopResult] | None = None

    def agent(self) -> Agent:
        return Agent(
            agent_id=AGENT, adapter=PROGRAMS[self.name], args=self.args, env=dict(self.env)
        )

    async def run(self, task: Task | None = None, ci: LocalCIProvider | None = None) -> LoopResult:
        """Run the loop to its end."""
        loop = self.loop(ci=ci)
        run = loop.run_agent_loop(self.agent(), task or self.task())
        return await asyncio.wait_for(run, PATIENCE)

    @contextlib.asynccontextmanager
    async def running(self, task: Task | None = None) -> AsyncIterator[asyncio.Task[LoopResult]]:
        """Let the loop run meanwhile; it is shut down at the end."""
        loop = self.loop()
        run = asyncio.create_task(loop.run_agent_loop(self.agent(), task or self.task()))
        self._run = run
        try:
            yield run
        finally:
            await loop.shutdown()
            await asyncio.gather(run, return_exceptions=True)

    # --- looking ------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"waited too long; {self.told()}"
            if self._run is not None and self._run.done() and not condition():
                raise AssertionError(f"the loop ended: {self._run.result()}; {self.told()}")
            await asyncio.sleep(0.01)

    def settled(self) -> bool:
        """Tell whether the first attempt is over and what follows from it is decided."""
        return any(each.before == "Capturing" != each.after for each in self.news)

    async def why(self) -> str:
        """Return what `loopwright show --why` says."""
        view = WhyContext(
            journal=await self.store.journal(AGENT),
            now=time.time(),  # noqa: TID251  # people have clocks
            when=lambda at: f"{at:.1f}",
            settings=self.read_settings(),
        )
        return why(await self.record(), view)

    def told(self, attempt: int = 1) -> str:
        """Return the end of what the program printed, for a failure's message."""
        log = self.paths.log(AGENT, attempt)
        return log.read_text(errors="replace")[-3000:] if log.exists() else "no log"

    def alive(self) -> list[str]:
        """Return the commands of living processes that began below this folder or at work."""
        found, places = [], (self.folder, self.workspace)
        for pid in proc_table.read_marks():
            row = proc_table.read_row(pid)
            with contextlib.suppress(OSError):
                where = Path(f"/proc/{pid}/cwd").readlink()
                if row and not row.dead and any(map(where.is_relative_to, places)):
                    found.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
        return found

    def of_the_user(self) -> dict[str, str]:
        """Return what the user himself has in his home and in his repository."""
        own = {path: (self.home / path).read_text() for path in self.files}
        return own | {f"repo/{path}": (self.repo / path).read_text() for path in INSTRUCTIONS}


@contextlib.asynccontextmanager
async def real_loop(  # noqa: PLR0913  # what differs between tests
    name: str,
    folder: Path,
    played: Conversation,
    *,
    url: str = "",
    env: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    args: tuple[str, ...] = (),
    **settings: Any,
) -> AsyncIterator[Real]:
    """Make a repository and a home for a program that works for the model.

    `env` is added, and an empty value takes a variable out; `files` are added to the home; `url` is
    where the model is, if not where it is played.
    """
    known = order(name, url or played.url, played.key)
    settled = _settings_of(name, known.env, known.argv, known.files)
    files = {**settled, **PERSONAL, **PROFILE, **(files or {})}
    repo, home, scratch = (folder / each for each in ("repo", "home", "tmp"))
    begun(repo, {"a.txt": "a\n", **INSTRUCTIONS})
    home.mkdir()
    scratch.mkdir()
    for path, text in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    mine = {
        "HOME": str(home),
        "TMPDIR": str(scratch),
        "PATH": f"{OURS}:{search_path()}",
        "LANG": "C.UTF-8",
        "XDG_CONFIG_HOME": str(home / ".config"),
    }
    own = {key: value for key, value in known.env.items() if key != "OPENCODE_CONFIG_CONTENT"}
    whole = mine | own | dict(env or {})
    async with await SqliteStore.open(folder / "state.db") as store:
        real = Real(
            name,
            folder,
            played,
            store=store,
            settings=dict(SETTINGS) | settings,
            env={key: value for key, value in whole.items() if value},
            args=args,
            files=files,
        )
        yield real
        left = real.alive()
        assert left == [], left


def _settings_of(
    name: str, env: Mapping[str, str], argv: Sequence[str], files: Mapping[str, str]
) -> dict[str, str]:
    """Return what stands in the user's home instead of in variables and arguments."""
    found = dict(files)
    if name == "opencode":
        provider = json.loads(env["OPENCODE_CONFIG_CONTENT"])["provider"]
        # It puts the schema into a file that has none.
        config = {"$schema": "https://opencode.ai/config.json", "provider": provider}
        found[".config/opencode/opencode.json"] = json.dumps(config)
    if name == "codex":
        settings = "\n".join(word for word in argv if word.startswith("model_provider"))
        found[".codex/config.toml"] = f"{settings}\n{found['.codex/config.toml']}"
    return found
