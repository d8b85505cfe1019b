"""A forge as small as one can be: a bare repository with its pull requests in a file beside.

The test puts this folder into a copy of the product, as anyone who adds a forge does.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from ci.errors import RefusedError
from ci.events import Check, CheckState
from ci.forge.protocol import Access, BranchRules, ForgePull, LeftQueue, Reviews
from ci.forge.sign_in import TokenSignIn, bearer, tokens
from ci.forge_registry import ForgeKind, token_variable
from ci.http.rate_limit import RateBudget
from ci.interface import MergeResult, PullRequestState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci.forge.protocol import NewPull
    from ci.forge.rest import Connection
    from ci.forge.sign_in import SignInContext

VARIABLES = (token_variable("toy"),)


class ToyForge:
    """Its API is the folder of the bare repository; every commit is green there."""

    name = "toy"
    mark = "#"
    queue = "merge queue"
    issues = None

    def __init__(self, connection: Connection) -> None:
        self.place, self.budget = connection.place, RateBudget()
        self._folder = Path(connection.api.removeprefix("file://"))
        self._file, self._sign = self._folder / "pulls.json", connection.sign

    async def checks(self, sha: str) -> tuple[Check, ...]:
        del sha
        return (Check(name="toy ci", state=CheckState.PASSED),)

    async def explain(self, sha: str, check: Check) -> Check:
        del sha
        return check

    async def rerun(self, sha: str, checks: Sequence[Check]) -> bool:
        del sha, checks
        return False

    async def head(self, branch: str) -> str | None:
        found = self._git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
        return found or None

    async def is_checked(self, branch: str) -> bool:
        del branch
        return True

    async def branch_rules(self, branch: str) -> BranchRules:
        del branch
        return BranchRules()

    async def default_branch(self) -> str:
        return "main"

    async def open_pulls(self) -> tuple[ForgePull, ...]:
        return tuple(each for each in self._pulls() if each.state is PullRequestState.OPEN)

    async def pull(self, number: int) -> ForgePull | None:
        return next((each for each in self._pulls() if each.number == number), None)

    async def find_pull(self, branch: str) -> ForgePull | None:
        found = [each for each in self._pulls() if each.branch == branch]
        return found[-1] if found else None

    def issue_of(self, ref: str) -> None:
        del ref

    def number_of(self, ref: str) -> int | None:
        last = ref.rpartition("/")[2].lstrip("#")
        return int(last) if last.isdigit() else None

    async def called(self) -> str:
        return "toy/toy"

    def renamed_to(self, url: str) -> str:
        del url
        return ""

    async def create_pull(self, new: NewPull) -> ForgePull:
        if (await self._sign()) != bearer("toy-token"):
            raise RefusedError("who are you?")
        number = len(self._pulls()) + 1
        made = ForgePull(
            number=number, url=f"toy://pulls/{number}", branch=new.branch, base=new.base,
            title=new.title, head_sha=await self.head(new.branch) or "",
            base_sha=await self.head(new.base) or "",
            state=PullRequestState.OPEN, mergeable=True, created_at=1.0, updated_at=1.0,
        )  # fmt: skip
        self._keep(made)
        return made

    async def reviews(self, pull: ForgePull) -> Reviews:
        del pull
        return Reviews()

    async def merge(self, pull: ForgePull, *, sha: str, method: str, message: str) -> MergeResult:
        del method, message
        self._git("update-ref", f"refs/heads/{pull.base}", sha, pull.base_sha)
        end = {"state": PullRequestState.MERGED, "merge_commit": sha, "updated_at": 2.0}
        self._keep(pull.model_copy(update=end))
        return MergeResult(merged=True, commit=sha)

    async def update_pull(self, pull: ForgePull) -> bool:
        del pull
        return False

    async def edit_pull(self, pull: ForgePull, *, title: str, body: str) -> None:
        raise NotImplementedError(f"{pull.number} {title} {body}")

    async def mark_ready(self, pull: ForgePull) -> None:
        raise NotImplementedError(pull.number)

    async def ask_for_review(self, number: int, who: Sequence[str]) -> None:
        raise NotImplementedError(f"{number} {who}")

    async def assign(self, number: int, who: Sequence[str]) -> None:
        raise NotImplementedError(f"{number} {who}")

    async def left_queue(self, pull: ForgePull) -> LeftQueue:
        del pull
        return LeftQueue()

    async def close_pull(self, number: int) -> None:
        raise NotImplementedError

    async def comment(self, number: int, text: str) -> None:
        raise NotImplementedError

    async def reply(self, number: int, ref: str, text: str) -> None:
        raise NotImplementedError

    async def access(self) -> Access:
        return Access(who="toy", can_read=True, can_write=True)

    async def aclose(self) -> None:
        """Have nothing to close."""

    def _git(self, *args: str) -> str:
        done = subprocess.run(
            ("git", *args), cwd=self._folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def _pulls(self) -> tuple[ForgePull, ...]:
        bodies = json.loads(self._file.read_text()) if self._file.exists() else {}
        return tuple(ForgePull.model_validate(body) for body in bodies.values())

    def _keep(self, pull: ForgePull) -> None:
        kept = {each.number: each for each in self._pulls()} | {pull.number: pull}
        bodies = {number: each.model_dump(mode="json") for number, each in kept.items()}
        self._file.write_text(json.dumps(bodies))


def sign_in(context: SignInContext) -> TokenSignIn | None:
    found = tokens(context.environ, VARIABLES)
    return next((TokenSignIn(*each, bearer(each[1]), "toy") for each in found.items()), None)


DESCRIPTION = ForgeKind(
    name="toy",
    hosts={"toy.example": ()},
    words=("toy",),
    token_variables=VARIABLES,
    api="{}/api".format,
    answers_with=("/version", "toy"),
    sign_in=sign_in,
    make=ToyForge,
)
