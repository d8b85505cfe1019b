"""A scene: a real repository with a real runner and its server, and a night's work in it.

Everything is done by real loops and real commands; only the agents are played.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx

from lifecycle.errors import StoreError
from lifecycle.paths import Paths
from lifecycle.state_words import word_of
from lifecycle.store.plain_queries import read_rows
from tests import waiting, warm
from tests.begun import begun
from tests.orchestrator.web.browser import november, programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

BIN = Path(sys.executable).parent
GIT = "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
HOOK_SECRET = "a-secret-of-the-hooks-of-these-tests"  # noqa: S105  # opens nothing else
PATIENCE = 3 * waiting.PATIENCE
"""Seconds for what a whole runner does while a browser and others are at work, too."""
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")


def _until(asked: Callable[[], Any], what: str | Callable[[], object]) -> Any:
    return waiting.wait_until(asked, what, PATIENCE)


@dataclass
class Scene:
    """One repository, its runner and what people do to it; `with` ends the runner."""

    folder: Path
    scripts: Mapping[str, Any] = field(default_factory=lambda: november.SCRIPTS)
    files: Mapping[str, str] = field(default_factory=lambda: november.FILES)
    port: int = 0

    def __post_init__(self) -> None:
        self.repo = begun(self.folder / "parcel", dict(self.files))
        home = self.folder / "home"
        home.mkdir()
        (home / ".gitconfig").write_text(GIT)
        path = programs.install(self.folder, self.scripts)
        self.env = {
            "PATH": f"{path}:{BIN}:{os.environ['PATH']}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "LOOPWRIGHT_GENERIC_HOOK_SECRET": HOOK_SECRET,
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
        }
        self._runs = 0
        self.runner: warm.Process | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """The bearer token."""
        return (self.folder / "home/.config/loopwright/token").read_text().strip()

    @property
    def api(self) -> httpx.Client:
        """A client for the API that has the token."""
        head = {"authorization": f"Bearer {self.token}"}
        return httpx.Client(
            base_url=f"{self.url}/api/v1",
            headers=head,
            timeout=PATIENCE,
            trust_env=False,
            verify=False,  # noqa: S501  # there is no TLS; to prepare for it takes half a second
        )

    def begin(self, *command: str) -> None:
        """Start a runner with a server, and wait until that answers."""
        self._runs += 1
        said = self.folder / f"runner-{self._runs}.said"
        with said.open("wb") as stream:
            self.runner = warm.Process(
                [*command, "--port", str(self.port)],
                cwd=self.repo,
                env=self.env,
                streams=(None, stream.fileno(), stream.fileno()),
            )
        try:
            found = _until(
                lambda: _ADDRESS.search(said.read_text()),
                lambda: f"the server tells its address: {said.read_text()}",
            )
            self.port = int(found[1])
            _until(self._answers, "the server answers")
        except BaseException:
            self.end()
            raise

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            answer = httpx.get(f"{self.url}/healthz", trust_env=False, verify=False)  # noqa: S501  # as above
            return answer.status_code == 200
        return False

    def up(self, tasks: Iterable[str] | None = None) -> None:
        """Run the plan, or some of its tasks."""
        self.begin_plan(november.plan(tasks))

    def begin_plan(self, text: str) -> None:
        """Run a plan."""
        path = self.folder / "november.json"
        path.write_text(text)
        self.begin("up", str(path), "--stay")

    def end(self, how: int = signal.SIGTERM) -> None:
        """End the runner; its agents end with it."""
        if self.runner is not None and self.runner.poll() is None:
            self.runner.send_signal(how)
            self.runner.wait(PATIENCE)
        self.runner = None

    def run(self, *args: str) -> str:
        """Run a command to its end; returns what it printed, whatever its exit code."""
        done = subprocess.run(
            [BIN / "loopwright", *args],
            cwd=self.repo,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout + done.stderr

    def git(self, *args: str) -> str:
        """Ask git about the repository."""
        done = subprocess.run(
            ["git", *args], cwd=self.repo, env=self.env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def states(self) -> dict[str, str]:
        """Return the state of each task, in words."""
        try:
            rows = read_rows(Paths.of(self.repo).database)
        except StoreError:
            return {}  # it is being made this moment
        return {
            row["agent_id"].removeprefix("agent-"): word_of(row["work_kind"], row["work"])
            for row in rows
            if row["work_kind"] is not None
        }

    def comes_to(self, **wanted: str) -> None:
        """Wait until tasks are in these states."""
        _until(
            lambda: wanted.items() <= self.states().items(),
            lambda: f"{wanted}, but it is {self.states()}",
        )

    def post(self, path: str, status: int | None = 200, **body: Any) -> Any:
        """Ask the API for something; without a status any answer is in order."""
        with self.api as api:
            answer = api.post(path, json=body)
        assert status in (answer.status_code, None), answer.text
        return answer.json()

    def hook(self, body: object, sender: str = "ci") -> None:
        """Send a signed webhook, as a forge or a CI server does."""
        raw = json.dumps(body).encode()
        sign = hmac.new(HOOK_SECRET.encode(), raw, hashlib.sha256).hexdigest()
        head = {"content-type": "application/json", "user-agent": sender}
        head["x-loopwright-signature"] = f"sha256={sign}"
        answer = httpx.post(f"{self.url}/hooks/generic", content=raw, headers=head, trust_env=False)
        assert answer.status_code == 202, answer.text

    def task(self, name: str, script: object, *, verify: Iterable[str] = (), **more: Any) -> None:
        """Add a task by hand; its agent is claude, played by a script."""
        programs.write(self.folder, name, script)
        body = {"text": f"Do {name}", "name": name, "agent": "claude", "verify": [*verify], **more}
        self.post("/lifecycles", 201, **body)


def november_night(folder: Path) -> Scene:
    """Play the whole night; in the end every state is there at once."""
    scene = Scene(folder)
    scene.up()
    try:
        for name in november.BY_HAND:
            scene.task(name, november.SCRIPTS[name], verify=[november.GATE],
                       text=november.TITLES[name])  # fmt: skip
        scene.comes_to(T01="done", T04="done")
        scene.post("/lifecycles/agent-T01/accept", why="looks right")
        scene.comes_to(T01="accepted")
        scene.post("/lifecycles/agent-T04/accept", 409)
        scene.comes_to(report="needs you")
        scene.post("/lifecycles/report/pause", why="tomorrow")
        scene.comes_to(geocoder="done")
        scene.post("/lifecycles/geocoder/reject", why="we keep the old one")
        scene.hook({"check": "e2e", "state": "passed", "branch": "agent/agent-T07"}, "buildbot")
        scene.hook({"check": "e2e", "state": "failed", "branch": "feature/other"}, "buildbot")
        scene.comes_to(**november.IN_THE_MORNING)
    except BaseException:
        scene.end()
        raise
    return scene
