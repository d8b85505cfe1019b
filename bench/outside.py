"""Waiting for a forge on loopback: what many waits cost, and how soon a webhook wakes one."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from bench.agent import stamps_of
from bench.measure import Options, Row, cpu, limited, script
from bench.world import World, git, patient, said, world
from ci.forge.merge_rules import Rules
from ci.forge.provider import RemoteProvider
from ci.forge.rest import Connection
from ci.github.forge import GitHubForge
from lifecycle.clock import SystemClock
from lifecycle.loop import AgentLifecycleLoop
from lifecycle.machine.states import PrPending, State
from lifecycle.plan import Plan
from runtime.branches import BranchManager
from runtime.remote.remote import GitRemote
from runtime.workspace import WorkspaceManager

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SERVE = (sys.executable, "-P", "-m", "orchestrator.cli.main")
SECRET = "bench"  # noqa: S105  # nobody else's
LOOPS = 500
WATCHED_S = 130.0
"""Longer than the longest pause between two looks, so that every wait was looked at."""
IDLE_AT_MOST = 0.002
WAKES = 30
WOKEN_WITHIN_MS = 150.0
PATIENCE = 60.0


@contextlib.contextmanager
def forge_for(bare: Path) -> Iterator[int]:
    """Run the forge; returns its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.forge", str(bare)], stdout=subprocess.PIPE, text=True
    )
    try:
        if process.stdout is None:
            raise RuntimeError("the forge has no output")
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def with_origin(made: World) -> tuple[Path, Path]:
    """Return a repository and its bare origin."""
    repo, bare = made.repository(files=20), made.fresh("origin.git")
    git(made.root, "clone", "-q", "--bare", str(repo), str(bare))
    git(repo, "remote", "add", "origin", str(bare))
    return repo, bare


async def nobody() -> Mapping[str, str]:
    """Sign nothing."""
    return {}


async def _idle(made: World, options: Options) -> Row:
    count = 50 if options.quick else LOOPS
    repo, bare = with_origin(made)
    with forge_for(bare) as port:
        url = f"http://127.0.0.1:{port}"
        green = {"id": 2, "status": "completed", "conclusion": "success"}
        _ask(port, "POST", "/_check", json.dumps(green).encode())
        forge = GitHubForge(
            Connection(repo="bench/bench", api=url, web_url=url, sign=nobody, now=SystemClock().now)
        )
        loop = AgentLifecycleLoop(
            repo_dir=repo,
            plan=Plan(tasks=()),
            ci_provider=RemoteProvider(forge, rules=Rules, header=nobody, chance=random.random),
            terminal_manager=made.terminals,
            branch_manager=BranchManager(repo),
            workspace_manager=WorkspaceManager(repo),
            settings=patient(retry_interval=30.0, max_live_agents=20, pr_merge_timeout=86_400.0),
            remote=GitRemote(repo, url=str(bare), environ=os.environ),
        )
        tasks = await made.park(
            loop, [f"T{number}" for number in range(count)], _waits, type="pr_created"
        )
        # The first looks come soon after one another; what is measured is the long wait.
        await asyncio.sleep(2.0 if options.quick else WATCHED_S)
        began, at = cpu(), time.monotonic()
        await asyncio.sleep(5.0 if options.quick else WATCHED_S)
        share = (cpu() - began) / (time.monotonic() - at)
        await loop.shutdown()
        await asyncio.gather(*tasks)
    return limited(
        what=f"{count} loops that wait for a forge, idle: share of one core",
        ours=f"{share:.3%}",
        value=share,
        at_most=IDLE_AT_MOST,
        reach=f"<= {IDLE_AT_MOST:.1%}",
        samples=count,
        note=made.note,
    )


def _waits(state: State | None) -> bool:
    return isinstance(state, PrPending) and state.number is not None


# --- being woken ------------------------------------------------------------------------------


def _ask(port: int, method: str, path: str, body: bytes = b"", **headers: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {"Content-Type": "application/json", **named})
        answer = connection.getresponse()
        told = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {told.decode()[:300]}")
        return json.loads(told) if told.startswith((b"{", b"[")) else told
    finally:
        connection.close()


async def _woken(made: World, options: Options) -> Row:
    repo, bare = with_origin(made)
    stamps = made.fresh("stamps")
    command = made.agent.says(stamps, said("T001", type="blocked", reason="for CI"))
    with forge_for(bare) as forge:
        settings = {
            "providers": ["github"], "forge_url": f"http://127.0.0.1:{forge}",
            "forge_repo": "bench/bench", "command": list(command), "max_retries": 10_000,
            "max_attempts": 10_000, "stuck_limit": 10_000, "baseline": False,
        }  # fmt: skip
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        (repo / "loopwright.toml").write_text("\n".join(lines) + "\n")
        env = {
            **os.environ,
            "XDG_CONFIG_HOME": str(made.fresh("config")),
            "LOOPWRIGHT_GITHUB_TOKEN": "bench",
            "LOOPWRIGHT_GITHUB_HOOK_SECRET": SECRET,
        }
        serve = ("serve", "--port", "0", "--json", "--show-token", "--repo", str(repo))
        server = await asyncio.create_subprocess_exec(
            *SERVE,
            *serve,
            env=env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            if server.stdout is None:
                raise RuntimeError("the server has no output")
            told = json.loads(await asyncio.wait_for(server.stdout.readuntil(b"}\n"), PATIENCE))
            port = int(told["url"].rpartition(":")[2])
            add = (*SERVE, "add", "Wait", "--name", "agent-T001", "--repo", str(repo))
            await asyncio.to_thread(subprocess.run, add, env=env, check=True, capture_output=True)
            times = await asyncio.to_thread(
                _wakes, port, forge, told["token"], stamps, 5 if options.quick else WAKES
            )
        finally:
            server.terminate()
            await asyncio.wait_for(server.wait(), PATIENCE)
    median, worst = statistics.median(times) * 1000, max(times) * 1000
    return limited(
        what="hook sent to the parked loop's next agent started",
        ours=f"median {median:.0f} ms, worst of {len(times)} {worst:.0f} ms",
        value=median,
        at_most=WOKEN_WITHIN_MS,
        reach=f"median < {WOKEN_WITHIN_MS:.0f} ms",
        samples=len(times),
        note=made.note,
    )


def _wakes(port: int, forge: int, token: str, stamps: Path, count: int) -> list[float]:
    """Turn the checks red, tell it by a webhook, and see when the next agent starts."""
    times = []
    for number in range(count):
        seen = _parked(port, token, stamps, number + 1)
        red = {"id": 1000 + number, "status": "completed", "conclusion": "failure"}
        _ask(forge, "POST", "/_check", json.dumps(red).encode())
        body = json.dumps(
            {
                "action": "completed",
                "check_run": {"id": red["id"], "head_sha": seen, "status": "completed"},
                "repository": {"full_name": "bench/bench"},
            }
        ).encode()
        mac = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        began = time.monotonic()
        _ask(
            port, "POST", "/hooks/github", body, X_GitHub_Event="check_run",
            X_GitHub_Delivery=f"bench-{number}", X_Hub_Signature_256=f"sha256={mac}",
        )  # fmt: skip
        while len(stamps_of(stamps)) < number + 2:
            time.sleep(0.002)
            if time.monotonic() > began + PATIENCE:
                raise RuntimeError("the loop did not wake")
        times.append(stamps_of(stamps)[number + 1][0] - began)
    return times


def _parked(port: int, token: str, stamps: Path, attempts: int) -> str:
    """Wait until so many attempts are through and the loop is parked; return its head."""
    end = time.monotonic() + PATIENCE
    work: dict[str, Any] = {}
    while time.monotonic() < end:
        time.sleep(0.05)
        bearer = f"Bearer {token}"
        found = _ask(port, "GET", "/api/v1/lifecycles/agent-T001", Authorization=bearer)
        work = found["lifecycle"]["work"]
        if work["kind"] == "Blocked" and work["tally"]["spawn_count"] == attempts:
            time.sleep(0.2)  # the first look, at once after it parked, is not what is measured
            return str(work["head"])
    raise RuntimeError(f"the loop is not parked: {work}, {len(stamps_of(stamps))} agents")


async def measure(options: Options) -> list[Row]:
    """Measure both."""
    with world() as made:
        return [await _woken(made, options), await _idle(made, options)]


if __name__ == "__main__":
    script(measure)
