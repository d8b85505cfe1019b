"""A whole life on GitHub: red CI, a fix, a pull request, a review, another fix, the merge.

GitHub is emulated on this machine by npm's `emulate`, which is installed on first use; Loopwright,
git, the webhooks and every process are real. From a checkout with its development packages:

    python examples/github_emulated/run.py
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "tests")]

from tests.ci.github.emulated import emulated_github  # noqa: E402  # the checkout is on the path now
from tests.ci.github.github_world import EmulatedWorld  # noqa: E402  # as above
from tests.ci.ports import git  # noqa: E402  # as above

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.ci.github.emulated import Emulated

SECRET = "said-only-to-this-example"  # noqa: S105  # of a GitHub that lives for seconds
AGENT = "agent-T001"
PATIENCE = 60.0
POLL = 0.05
LOG = "step Run pytest\nE       assert add(2, 2) == 4\nE        +  where 0 = add(2, 2)"


class Runner:
    """`loopwright serve` on a repository, and the command line beside it."""

    def __init__(self, world: EmulatedWorld, folder: Path) -> None:
        self.world = world
        self.url = ""
        self._env = {
            **os.environ,
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(folder / "state"),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "LOOPWRIGHT_GITHUB_TOKEN": world.tokens["wright"],
            "LOOPWRIGHT_GITHUB_HOOK_SECRET": SECRET,
        }
        self._server: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Serve; the first line tells where."""
        with (self.world.root / ".git" / "runner.txt").open("wb") as said:
            self._server = await asyncio.create_subprocess_exec(
                *self._command("serve", "--port", "0", "--json"),
                env=self._env,
                stdout=asyncio.subprocess.PIPE,
                stderr=said,
            )
        if self._server.stdout is None:
            raise RuntimeError("the server has no output")
        told = await asyncio.wait_for(self._server.stdout.readuntil(b"}\n"), PATIENCE)
        self.url = json.loads(told)["url"]

    async def stop(self) -> int:
        """End it as a person would."""
        if self._server is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            self._server.terminate()
        return await asyncio.wait_for(self._server.wait(), PATIENCE)

    async def call(self, *words: str) -> str:
        """Run a command to its end and return what it printed."""
        command = await asyncio.create_subprocess_exec(
            *self._command(*words), env=self._env, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await asyncio.wait_for(command.communicate(), PATIENCE)
        if command.returncode:
            raise RuntimeError(f"loopwright {' '.join(words)} ended with {command.returncode}")
        return output.decode()

    async def shown(self) -> dict[str, Any]:
        """Return the record of the agent as it is now."""
        return dict(json.loads(await self.call("show", AGENT, "--json")))

    async def until(self, work: str, attempt: int) -> dict[str, Any]:
        """Wait for a state after so many attempts."""
        seen: dict[str, Any] = {}
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    seen = await self.shown()
                    now = seen["lifecycle"]["work"]
                    known = now.get("number", 0) is not None
                    if now["kind"] == work and now["tally"]["spawn_count"] >= attempt and known:
                        return seen
                    await asyncio.sleep(POLL)
        except TimeoutError:
            text = f"waited too long for {work} after {attempt} attempts: {seen.get('why')}"
            raise RuntimeError(text) from None

    def _command(self, name: str, *words: str) -> tuple[str, ...]:
        start = (sys.executable, "-P", "-m", "orchestrator.cli.main", name)
        return (*start, *words, "--repo", str(self.world.root))


@contextlib.asynccontextmanager
async def prepared(folder: Path, github: Emulated) -> AsyncIterator[tuple[EmulatedWorld, Runner]]:
    """Make a repository with an origin on GitHub, and serve it."""
    world = EmulatedWorld(folder, github, pushes=False)
    await world.start()
    settings = f"""\
providers = ["github"]
forge_url = "{github.url}"
forge_repo = "{world.repo}"
command = ["{sys.executable}", "{HERE / "agent.py"}"]
verify = ["{sys.executable} -c 'import calc; assert calc.add(2, 2) == 4'"]
baseline = false
"""
    await asyncio.to_thread(git, world.root, "checkout", "--quiet", "main")
    (world.root / "loopwright.toml").write_text(settings, "utf-8")
    runner = Runner(world, folder)
    await runner.start()
    await world.hook(f"{runner.url}/hooks/github", SECRET)
    try:
        yield world, runner
    finally:
        await runner.stop()
        await world.aclose()


async def story(world: EmulatedWorld, runner: Runner) -> dict[str, Any]:
    """Live it; returns the record at its end."""
    branch = f"agent/{AGENT}"
    await runner.call("add", "Write calc.add, which adds two numbers", "--name", AGENT)
    tell("attempt 1 writes add() and blocks on CI")
    blocked = await runner.until("Blocked", 1)
    await world.red(await pushed(world, branch, blocked), "unit", LOG)
    tell("CI is red; a fresh attempt reads the failing step, fixes it and asks for a merge")
    opened = await runner.until("PrPending", 2)
    number = int(opened["lifecycle"]["work"]["number"])
    await world.check(await pushed(world, branch, opened), "unit", conclusion="success")
    remark = ("calc.py", 1, "please add a docstring")
    await world.review(number, body="Nearly there.", lines=(remark,))
    tell(f"pull request {number} is reviewed: changes requested")
    mended = await runner.until("PrPending", 3)
    await world.check(await pushed(world, branch, mended), "unit", conclusion="success")
    await world.review(number, event="APPROVE", body="Thank you.")
    await world.merge(number)
    tell("approved and merged; a last attempt compares and says that the task is complete")
    await runner.until("Completed", 4)
    await runner.call("accept", AGENT)
    tell("accepted")
    return await runner.shown()


async def pushed(world: EmulatedWorld, branch: str, told: dict[str, Any]) -> str:
    """Return the commit that is waited for, once it is the branch's newest on GitHub."""
    sha = str(told["lifecycle"]["work"]["head"])
    async with asyncio.timeout(PATIENCE):
        while True:
            _, tips = await asyncio.to_thread(git, world.root, "ls-remote", "origin", branch)
            if sha.encode() in tips:
                await world.sync()
                return sha
            await asyncio.sleep(POLL)


def tell(text: str) -> None:
    """Say what happens."""
    print(f"- {text}", file=sys.stderr)


async def main() -> None:
    """Live the story in a throw-away folder."""
    with tempfile.TemporaryDirectory() as name, emulated_github() as github:
        async with prepared(Path(name), github) as (world, runner):
            end = await story(world, runner)
            print(end["why"])


if __name__ == "__main__":
    asyncio.run(main())
