"""A real Buildbot: it polls a bare repository, builds, and reports by signed hooks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CONFIG = """\
import hashlib
import hmac
import json
import os
import urllib.request

from buildbot.plugins import changes, reporters, schedulers, steps, util, worker
from buildbot.process.results import SUCCESS, WARNINGS
from twisted.internet import defer, threads

SECRET = os.environ["HOOK_SECRET"]


def printed(step):
    # Each line begins with where it came from; headers hold the environment, with its secrets.
    logs = [log["content"]["content"] for log in step["logs"] if "content" in log]
    lines = [line for text in logs for line in text.split("\\n")]
    return "\\n".join(line[1:] for line in lines if line[:1] in ("o", "e"))


def told(context):
    build = context["build"]
    source = build["buildset"]["sourcestamps"][0]
    body = {
        "event": "check",
        "sha": source["revision"],
        "branch": source["branch"],
        "name": "buildbot/" + build["builder"]["name"],
        "number": build["number"],
        "status": "running",
        "url": build["url"],
    }
    if build["complete"]:
        body["status"] = "passed" if build["results"] in (SUCCESS, WARNINGS) else "failed"
        body["at"] = build["complete_at"].timestamp()
        body["summary"] = build["state_string"]
        for step in build["steps"]:
            if step["results"] not in (SUCCESS, WARNINGS):
                body["summary"] = f"{step['name']}: {step['state_string']}"
                body["log"] = printed(step)[-60000:]
    return body


class SignedPush(reporters.HttpStatusPush):
    name = "SignedPush"

    @defer.inlineCallbacks
    def sendMessage(self, reports):
        raw = json.dumps(reports[0]["body"]).encode()
        mac = hmac.new(SECRET.encode(), raw, hashlib.sha256).hexdigest()
        request = urllib.request.Request(
            os.environ["HOOK_URL"],
            data=raw,
            headers={"Content-Type": "application/json", "X-Loopwright-Signature": "sha256=" + mac},
        )
        yield threads.deferToThread(lambda: urllib.request.urlopen(request, timeout=10).read())


REPO = os.environ["REPO"]
formatter = reporters.MessageFormatterFunction(
    told, "json", want_steps=True, want_logs=True, want_logs_content=True
)
generator = reporters.BuildStartEndStatusGenerator(
    start_formatter=formatter, end_formatter=formatter
)
factory = util.BuildFactory(
    [
        steps.Git(repourl=REPO, mode="full", method="clobber", name="fetch"),
        steps.ShellCommand(command=["sh", "check.sh"], name="unit test", logEnviron=False),
    ]
)
c = BuildmasterConfig = {
    "workers": [worker.LocalWorker("here")],
    "protocols": {"null": {}},
    "change_source": [
        changes.GitPoller(repourl=REPO, branches=True, pollInterval=1, pollAtLaunch=True)
    ],
    "schedulers": [
        schedulers.AnyBranchScheduler(
            name="agents",
            change_filter=util.ChangeFilter(branch_fn=lambda name: name.startswith("agent/")),
            treeStableTimer=None,
            builderNames=["unit"],
        )
    ],
    "builders": [util.BuilderConfig(name="unit", workernames=["here"], factory=factory)],
    "services": [SignedPush(os.environ["HOOK_URL"], generators=[generator])],
    "db": {"db_url": "sqlite:///state.sqlite"},
    "buildbotURL": "http://127.0.0.1/",
    "buildbotNetUsageData": None,
}
"""
PROGRAM = (sys.executable, "-c", "from buildbot.scripts.runner import run; run()")
ENDS_WITHIN = 15.0


@contextlib.asynccontextmanager
async def buildbot(folder: Path, repo: Path, *, url: str, secret: str) -> AsyncIterator[Path]:
    """Run it until left; returns its log once it polls. Nothing is left of it but its files."""
    master, home = folder / "master", folder / "home"
    home.mkdir(parents=True)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOOK_URL": url,
        "HOOK_SECRET": secret,
        "REPO": str(repo),
    }
    await _run(folder, env, "create-master", "--relocatable", str(master))
    (master / "master.cfg").write_text(CONFIG)
    with (folder / "output.log").open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(*PROGRAM, "start", "--nodaemon", str(master)),
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        log = master / "twistd.log"
        await _polls(process, log)
        yield log
    finally:
        await _end(process)


async def _polls(process: asyncio.subprocess.Process, log: Path) -> None:
    # What is pushed before is history to it, and is not built.
    async with asyncio.timeout(60):
        said = ""
        while "gitpoller: processing changes" not in said:
            await asyncio.sleep(0.05)
            said = await asyncio.to_thread(_read, log)
            assert process.returncode is None, said


def _read(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""


async def _run(folder: Path, env: dict[str, str], *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(*PROGRAM, *arguments),
        cwd=folder,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = await process.communicate()
    finally:
        await _end(process)
    assert process.returncode == 0, said.decode(errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), ENDS_WITHIN)
    # Also what its worker may have left running.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
