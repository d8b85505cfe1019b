"""How a test starts each real coding agent by hand against a scripted model.

A private home, an empty environment with a made-up key, the prompt on standard input, unattended,
output into files. Whatever carries the run's mark, or is in its process group, is ended with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runtime import proctable
from tests.tools.agents.installed import program, search_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.models.conversation import Conversation

NAMES = ("claude", "codex", "gemini", "opencode")
PATIENCE = 40.0
GRACE = 3.0
"""Seconds in which what is just ending may end."""


@dataclass(frozen=True)
class Order:
    """How a program is started."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts to write below the home."""


def order(name: str, url: str, key: str) -> Order:
    """Return how the program is started, without the home."""
    return {"claude": _claude, "codex": _codex, "gemini": _gemini, "opencode": _opencode}[name](
        url, key
    )


def _claude(url: str, key: str) -> Order:
    flags = ("--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions")
    return Order(
        ("claude", "-p", *flags),
        {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": key,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "2",
            "ENABLE_TOOL_SEARCH": "false",
            # As root it works without asking only where it is told that nothing can be harmed.
            "IS_SANDBOX": "1",
        },
    )


def _codex(url: str, key: str) -> Order:
    provider = (
        f'{{name="scripted",base_url="{url}/v1",env_key="SCRIPTED_KEY",wire_api="responses",'
        "request_max_retries=1,stream_max_retries=1}"
    )
    settings = ('model_provider="scripted"', f"model_providers.scripted={provider}")
    unattended = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    return Order(
        (
            *("codex", "exec", "--json", *unattended, "-m", "gpt-5.1-codex"),
            *(word for each in settings for word in ("-c", each)),
            "-",
        ),
        {"SCRIPTED_KEY": key},
        # It looks for plugins and sends figures to its makers otherwise.
        {".codex/config.toml": "[analytics]\nenabled = false\n[features]\nplugins = false\n"},
    )


def _gemini(url: str, key: str) -> Order:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "maxAttempts": 1},
    }
    return Order(
        ("gemini", "--yolo", "--output-format", "stream-json", "-m", "gemini-2.5-pro"),
        {
            "GEMINI_API_KEY": key,
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_CLI_NO_RELAUNCH": "true",
        },
        {".gemini/settings.json": json.dumps(settings)},
    )


def _opencode(url: str, key: str) -> Order:
    limit = {"context": 200000, "output": 8000}
    cost = {"input": 1, "output": 2, "cache_read": 0.1, "cache_write": 1}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": key},
        "models": {"m1": {"limit": limit, "cost": cost}},
    }
    config: dict[str, Any] = {
        "provider": {"scripted": provider},
        "permission": {"*": "allow"},
        "autoupdate": False,
        "share": "disabled",
    }
    return Order(
        ("opencode", "run", "--format", "json", "-m", "scripted/m1"),
        {
            "OPENCODE_CONFIG_CONTENT": json.dumps(config),
            # It fetches a list of models and a plugin package otherwise.
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "npm_config_offline": "true",
        },
    )


@dataclass
class Run:
    """A program that was started, and its output so far."""

    process: subprocess.Popen[bytes]
    mark: str
    stdout: Path
    stderr: Path
    began: float
    seconds: float = 0.0
    """How long it took, once it was waited for."""

    def wait(self, within: float = PATIENCE) -> int:
        """Return its exit code."""
        try:
            code = self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"still running after {within} s:\n{self.told()}") from None
        self.seconds = time.monotonic() - self.began
        return code

    def events(self) -> list[dict[str, Any]]:
        """Return what it printed, line by line; lines that are no JSON are left out."""
        found = []
        for line in self.stdout.read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return [each for each in found if isinstance(each, dict)]

    def told(self) -> str:
        """Return the end of all its output, for a failure's message."""
        return "\n".join(
            f"--- {each.name}\n{each.read_text(errors='replace')[-2000:]}"
            for each in (self.stdout, self.stderr)
        )

    def alive(self) -> dict[int, str]:
        """Return what carries its mark and still runs, and each one's command."""
        rows = {pid: proctable.read_row(pid) for pid in _marked(self.mark)}
        return {pid: _command(pid) for pid, row in rows.items() if row and not row.dead}

    def left(self, within: float = GRACE) -> dict[int, str]:
        """Return what is still alive after a moment for what is just ending."""
        deadline = time.monotonic() + within
        while (found := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return found


@contextlib.contextmanager
def started(  # noqa: PLR0913  # what differs between tests
    name: str,
    conversation: Conversation,
    folder: Path,
    *,
    prompt: str = "Do it.",
    env: Mapping[str, str] | None = None,
    more: tuple[str, ...] = (),
) -> Iterator[Run]:
    """Run a program below the folder, in its `work`; all of it is gone afterwards.

    `env` is added, and an empty value takes a variable out; `more` comes after the flags.
    """
    plan = order(name, conversation.url, conversation.key)
    mark = f"by-hand-{uuid.uuid4()}"
    home, work, scratch = (folder / each for each in ("home", "work", "tmp"))
    for each in (home, work, scratch):
        each.mkdir(parents=True, exist_ok=True)
    for path, text in plan.files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    (folder / "prompt").write_text(prompt)
    own = {"HOME": str(home), "TMPDIR": str(scratch), "PATH": search_path(), "LANG": "C.UTF-8"}
    whole = own | dict(plan.env) | dict(env or {}) | {proctable.MARK_VARIABLE: mark}
    argv = [str(program(name)), *plan.argv[1:-1], *_before(plan.argv, more)]
    out, err = folder / "stdout", folder / "stderr"
    with (folder / "prompt").open() as stdin, out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            argv,
            cwd=work,
            env={key: value for key, value in whole.items() if value},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    run = Run(process, mark, out, err, time.monotonic())
    try:
        yield run
    finally:
        _end(run)


def _before(argv: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """Put more words before the one that stands for standard input."""
    return (*more, argv[-1]) if argv[-1] == "-" else (argv[-1], *more)


def _end(run: Run) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(run.process.pid, signal.SIGKILL)
    run.process.wait()
    deadline = time.monotonic() + GRACE
    while (alive := run.alive()) and time.monotonic() < deadline:
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _marked(mark: str) -> list[int]:
    return [pid for pid, found in proctable.read_marks().items() if found == mark]


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:  # noqa: PTH123  # as short as it is
            return stream.read().replace(b"\0", b" ").decode(errors="replace").strip()[:200]
    except OSError:
        return ""
