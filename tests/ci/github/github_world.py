"""GitHub at work on a real repository: git with a bare origin, and emulate that follows it."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Any

import httpx

from ci.forge.rest import Connection
from ci.github.forge import GitHubForge
from lifecycle.clock import SystemClock
from tests.ci.forge.forge_world import ForgeWorld, IssueSeen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from tests.ci.github.emulated import Emulated

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


class EmulatedWorld(ForgeWorld):
    """A repository, its bare origin and GitHub around it."""

    we, reviewer = "wright", "rita"

    def __init__(self, tmp_path: Path, emulated: Emulated, *, pushes: bool = True) -> None:
        super().__init__(tmp_path / "world", pushes=pushes)
        self.root = self.origin.repo
        self.repo = f"{OWNER}/app-{uuid.uuid4().hex[:8]}"
        self.tokens: dict[str, str] = {}
        self._url = emulated.url
        self._client = httpx.AsyncClient(base_url=emulated.url, timeout=20)
        self._held: list[int] = []
        self._forges: list[GitHubForge] = []

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls, tmp_path: Path, emulated: Emulated, *, pushes: bool = True
    ) -> AsyncIterator[EmulatedWorld]:
        """Have one, with every connection closed at the end."""
        world = cls(tmp_path, emulated, pushes=pushes)
        await world.start()
        try:
            yield world
        finally:
            await world.aclose()

    async def start(self) -> None:
        """Have GitHub know the repository."""
        answer = await self._client.put(
            f"/_git/{self.repo}", json={"path": str(self.origin.bare), "people": PEOPLE}
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
            Connection(
                repo=self.repo,
                api=self._url,
                web_url=self._url,
                **{"sign": sign, "now": SystemClock().now, **settings},
            )
        )
        self._forges.append(forge)
        return forge

    async def aclose(self) -> None:
        """Close every connection."""
        for forge in self._forges:
            await forge.aclose()
        await self._client.aclose()

    async def committed(self, branch: str, sha: str, outcome: str) -> None:
        del branch
        if self.pushes:
            await self.sync()
        if outcome:
            await self.check(sha, "ci", **CHECKS[outcome])

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
        body: str = "",
        *,
        event: str = "REQUEST_CHANGES",
        lines: Sequence[tuple[str, int, str]] = (),
        by: str = "rita",
    ) -> int:
        """Review as somebody, with remarks on lines: file, line, text."""
        remarks = [
            {"path": path, "position": 1, "line": line, "body": text} for path, line, text in lines
        ]
        told = {"event": event, "body": body, "comments": remarks}
        return int((await self.call("POST", f"/pulls/{number}/reviews", told, by=by))["id"])

    async def remark(self, number: int, text: str, path: str, line: int) -> int:
        return await self.review(number, lines=[(path, line, text)])

    async def approve(self, number: int) -> int:
        return await self.review(number, event="APPROVE")

    async def merge(self, number: int) -> str:
        """Merge as the owner does on the page; returns the commit."""
        return str((await self.call("PUT", f"/pulls/{number}/merge", {}))["sha"])

    async def new_issue(self, *labels: str, title: str = "Add", body: str = "") -> int:
        told = {"title": title, "body": body, "labels": list(labels)}
        made = await self.call("POST", "/issues", told)
        return int(made["number"])

    async def issue(self, number: int) -> IssueSeen:
        seen = await self.call("GET", f"/issues/{number}")
        said = await self.call("GET", f"/issues/{number}/comments")
        labels = tuple(row["name"] for row in seen["labels"])
        return IssueSeen(seen["state"] == "open", labels, tuple(row["body"] for row in said))

    async def change_issue(self, number: int, *labels: str, is_open: bool = True) -> None:
        told = {"labels": list(labels), "state": "open" if is_open else "closed"}
        await self.call("PATCH", f"/issues/{number}", told)

    async def asked(self, number: int) -> list[str]:
        shown = await self.call("GET", f"/pulls/{number}")
        return [each["login"] for each in shown["requested_reviewers"]]

    async def assigned(self, number: int) -> list[str]:
        shown = await self.call("GET", f"/pulls/{number}")
        return [each["login"] for each in shown["assignees"]]

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
