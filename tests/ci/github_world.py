"""GitHub at work on a real repository: git with a bare origin, and emulate that follows it."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import httpx

from ci.github import GitHubForge
from lifecycle.clock import SystemClock
from tests.ci.contract import BASE
from tests.ci.ports import GitRepository, git

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.ci.emulated import Emulated

OWNER = "acme"
PEOPLE = {"wright": "push", "rita": "push", "mallory": None}
"""We, a reviewer who belongs to the repository, and a stranger."""

CHECKS: Mapping[str, dict[str, Any]] = {
    "green": {"conclusion": "success", "output": {"title": "all is well", "summary": ""}},
    "red": {
        "conclusion": "failure",
        "output": {"title": "1 test failed", "summary": "", "text": "the sum is wrong"},
    },
    "held": {"status": "in_progress"},
}


class EmulatedWorld:
    """A repository, its bare origin and GitHub around it."""

    def __init__(self, tmp_path: Path, emulated: Emulated, *, pushes: bool = True) -> None:
        """`pushes`: what is committed is pushed at once, so that nobody else needs to."""
        self.root = tmp_path / "repo"
        self.origin = tmp_path / "origin.git"
        self.repository = GitRepository(self.root)
        self.pushes = pushes
        self.repo = f"{OWNER}/app-{uuid.uuid4().hex[:8]}"
        self.tokens: dict[str, str] = {}
        self._url = emulated.url
        self._client = httpx.AsyncClient(base_url=emulated.url, timeout=20)
        self._held: list[int] = []
        self._forges: list[GitHubForge] = []

    async def start(self) -> None:
        """Make the repository with a first commit, here, in its origin and on GitHub."""
        await asyncio.to_thread(self._begin)
        answer = await self._client.put(
            f"/_git/{self.repo}", json={"path": str(self.origin), "people": PEOPLE}
        )
        answer.raise_for_status()
        self.tokens = answer.json()["tokens"]
        self.forge = self.new_forge()

    def new_forge(self, *, who: str = "wright", **settings: Any) -> GitHubForge:
        """Return a forge that is signed in as somebody."""
        headers = {"Authorization": f"Bearer {self.tokens[who]}"}

        async def sign() -> dict[str, str]:
            return headers

        forge = GitHubForge(
            repo=self.repo,
            api=self._url,
            web_url=self._url,
            **{"sign": sign, "now": SystemClock().now, **settings},
        )
        self._forges.append(forge)
        return forge

    async def aclose(self) -> None:
        """Close every connection."""
        for forge in self._forges:
            await forge.aclose()
        await self._client.aclose()

    async def commit(
        self, branch: str, *, outcome: str = "green", shared: str | None = None
    ) -> str:
        """Commit to the branch, made from the base if new; its CI has this outcome."""
        sha = await asyncio.to_thread(self._commit, branch, outcome, shared)
        if self.pushes:
            await self.push(branch)
        await self.check(sha, "ci", **CHECKS[outcome])
        return sha

    async def push(self, branch: str) -> None:
        """Push as anybody may do, and let GitHub notice at once."""
        await asyncio.to_thread(self._git, "push", "-q", "-f", "origin", f"refs/heads/{branch}")
        await self.sync()

    async def sync(self) -> None:
        """Let GitHub take over what was pushed; it also does so before each answer."""
        (await self._client.post(f"/_git/{self.repo}")).raise_for_status()

    async def check(self, sha: str, name: str, **told: Any) -> int:
        """Have a check of a commit say something; it is finished if it has a conclusion."""
        told = {"status": "completed" if "conclusion" in told else "queued", **told}
        made = await self.call("POST", "/check-runs", {"name": name, "head_sha": sha, **told})
        if told["status"] != "completed":
            self._held.append(made["id"])
        return int(made["id"])

    async def red(self, sha: str, name: str, log: str) -> int:
        """Have a check of a commit fail."""
        output = {"title": f"{name} failed", "summary": "", "text": log}
        return await self.check(sha, name, conclusion="failure", output=output)

    async def release(self) -> None:
        """Let the checks that were held pass."""
        held, self._held = self._held, []
        for identity in held:
            passed = {"status": "completed", "conclusion": "success"}
            await self.call("PATCH", f"/check-runs/{identity}", passed)

    async def review(
        self,
        number: int,
        *,
        event: str = "REQUEST_CHANGES",
        body: str = "",
        lines: Sequence[tuple[str, int, str]] = (),
        by: str = "rita",
    ) -> int:
        """Review as somebody, with remarks on lines: file, line, text."""
        remarks = [
            {"path": path, "position": 1, "line": line, "body": text} for path, line, text in lines
        ]
        told = {"event": event, "body": body, "comments": remarks}
        return int((await self.call("POST", f"/pulls/{number}/reviews", told, by=by))["id"])

    async def merge(self, number: int) -> str:
        """Merge as the owner does on the page; returns the commit."""
        return str((await self.call("PUT", f"/pulls/{number}/merge", {}))["sha"])

    async def close(self, number: int) -> None:
        """Close as the owner does on the page."""
        await self.call("PATCH", f"/pulls/{number}", {"state": "closed"})

    async def hook(self, url: str, secret: str) -> int:
        """Have GitHub tell everything to a url, signed."""
        config = {"url": url, "secret": secret, "content_type": "json"}
        made = await self.call("POST", "/hooks", {"events": ["*"], "config": config})
        return int(made["id"])

    async def deliveries(self, hook: int) -> list[dict[str, Any]]:
        """Return what GitHub told a hook and how that was answered, the newest first."""
        return list(await self.call("GET", f"/hooks/{hook}/deliveries?per_page=100"))

    async def merged_text(self) -> str:
        """Return the shared file of the base branch on GitHub."""
        show = ("show", f"{BASE}:shared.txt")
        return (await asyncio.to_thread(git, self.origin, *show))[1].decode()

    async def call(self, method: str, path: str, body: Any = None, *, by: str = OWNER) -> Any:
        """Ask GitHub as somebody about this repository."""
        answer = await self._client.request(
            method,
            f"/repos/{self.repo}{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.tokens[by]}"},
        )
        assert answer.is_success, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def _begin(self) -> None:
        self.root.mkdir(parents=True)
        self._git("init", "-q", "--template=", "-b", BASE)
        self._import(BASE, "begin", {"shared.txt": "base"})
        self._git("clone", "-q", "--bare", "--template=", ".", str(self.origin))
        self._git("remote", "add", "origin", str(self.origin))
        self._git("checkout", "-q", "--detach", BASE)

    def _commit(self, branch: str, outcome: str, shared: str | None) -> str:
        known = git(self.root, "rev-parse", "-q", "--verify", f"refs/heads/{branch}")[0] == 0
        # A file of its own, so that two commits of one second are never the same commit.
        files = {f"{branch.replace('/', '-')}.txt": uuid.uuid4().hex}
        if shared is not None:
            files["shared.txt"] = shared
        self._import(branch, f"{branch}: {outcome}", files, after=branch if known else BASE)
        return self._git("rev-parse", f"refs/heads/{branch}")

    def _import(
        self, branch: str, message: str, files: Mapping[str, str], *, after: str = ""
    ) -> None:
        """Commit without a checkout, which takes one process instead of five."""
        parent = f"from refs/heads/{after}^0\n" if after else ""
        told = "".join(
            f"M 100644 inline {name}\ndata {len(text.encode())}\n{text}\n"
            for name, text in files.items()
        )
        self._git(
            "fast-import",
            "--quiet",
            "--date-format=now",
            stdin=f"commit refs/heads/{branch}\ncommitter t <t@example.org> now\n"
            f"data {len(message.encode())}\n{message}\n{parent}{told}",
        )

    def _git(self, *args: str, stdin: str | None = None) -> str:
        code, out = git(self.root, *args, stdin=stdin.encode() if stdin is not None else None)
        assert code == 0, (args, out)
        return out.decode().strip()
