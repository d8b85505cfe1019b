"""Secrets planted in every input of a real loop are in no byte that the runner writes.

What the agent itself writes is not ours: its worktree, its commits, its communications.json.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import sys
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from runtime.masking.masker import Masker
from tests import warm
from tests.orchestrator.loopkit import World, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FORGE = "ghp_Q7wX2mK9pL4vN8sT1yB5cD3fG6hJ0zR"
PASSED = "sk-live/Zt5+Rk8 Wq2'Yn7\"Mb4"
GIVEN = "plan-given-Hx3Lp9Vd6Kc1"
BEARER = "bearer-Uj4Gt8Fe2Ws6Qa0Zx"
HOOK = "hook-Sd5Fg6Hj7Kl8Zx9Cv"
SECRETS = {
    "GITHUB_TOKEN": FORGE,
    "MODEL_KEY": PASSED,
    "PLAN_TOKEN": GIVEN,
    "LOOPWRIGHT_TOKEN": BEARER,
    "LOOPWRIGHT_GENERIC_HOOK_SECRET": HOOK,
}
"""By variable; PLAN_TOKEN is set by the plan, the others in the environment of the runner."""
SPEAKS = """
import base64, os, sys, time, urllib.parse, json
key, given, forge = os.environ['MODEL_KEY'], os.environ['PLAN_TOKEN'], sys.argv[1]
for text in (key, given, forge):
    print(text, base64.b64encode(b'u:' + text.encode()).decode(), urllib.parse.quote(text, safe=''))
    print(json.dumps({'a': text}), json.dumps(json.dumps(text)), file=sys.stderr)
    for part in (text[:5], text[5:9], text[9:]):
        sys.stdout.write(part); sys.stdout.flush(); time.sleep(0.01)
"""


def coded(secret: str) -> dict[str, tuple[bytes, bytes]]:
    """Return what a program may make of a secret, and of that the part that gives it away."""
    raw, again = secret.encode(), json.dumps(json.dumps(secret))[3:-3].encode()
    escaped, quoted = (
        json.dumps(secret)[1:-1].encode(),
        urllib.parse.quote(secret, safe="").encode(),
    )
    plain, shifted = base64.b64encode(raw), base64.b64encode(b"u:" + raw)
    return {
        "plain": (raw, raw),
        "json": (escaped, escaped),
        "json in json": (again, again),
        "quoted": (quoted, quoted),
        "base64": (plain, plain[:-4]),
        "base64 after two": (shifted, shifted[4:-4]),
        "hex": (raw.hex().encode(), raw.hex().encode()),
    }


FORMS = {
    f"{name} {form}": data
    for name, secret in SECRETS.items()
    for form, data in coded(secret).items()
}


def found_in(data: bytes) -> set[str]:
    return {name for name, (_, telling) in FORMS.items() if telling in data}


def written(root: Path) -> dict[str, set[str]]:
    """Search all that the runner wrote, names of files too; what agents wrote is left out."""
    found = {}
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if inside.parts[0] == "git" or not path.is_file():
            continue
        leaks = found_in(str(inside).encode()) | found_in(path.read_bytes())
        if leaks:
            found[str(inside)] = leaks
    return found


def story() -> dict[str, Any]:
    told = f"{PASSED} {GIVEN} {FORGE}"
    speaks = {"run": [sys.executable, "-S", "-c", SPEAKS, FORGE]}
    entry = {"mission": told, "working_on": told, "done": told, "next": told}
    return {
        "attempts": {
            "1": [
                speaks,
                {"write": {"path": f"name {GIVEN}.txt", "text": told}},
                {"commit": f"Commit {told}"},
                {"write": {"path": f"draft {FORGE}.txt", "text": told}},
                {"breakpoint": {"type": "question", "question": f"Is {told} right?",
                                "summary": told, "entry": entry}},
            ],
            "default": [
                speaks,
                {"breakpoint": {"type": "task_complete", "summary": f"done with {told}"}},
            ],
        }
    }  # fmt: skip


def plan_of(world: World) -> str:
    script = story()
    for steps in script["attempts"].values():
        for step in steps:
            if "breakpoint" in step:
                step["breakpoint"].pop("entry", None)
    command = world.script("agent", script)
    told = json.dumps(f"use {FORGE}")
    return world.plan(
        f"[agents.default]\ncommand = {json.dumps(command.split())}\n"
        f'env = {{ PLAN_TOKEN = "{GIVEN}" }}\n\n'
        f'[[tasks]]\nid = "T001"\ntitle = {told}\ndescription = {told}\nagent = "default"\n'
        f'verify = ["echo {FORGE}; exit 1"]\n'
    )


@pytest.fixture(scope="module", autouse=True)
def _warm(clean_home: object) -> None:
    """Start what runners are forked from; it stays with this process to its end."""
    del clean_home
    warm.begin()


@pytest.fixture
def world(tmp_path: Path, clean_home: Path) -> World:
    del clean_home
    world = World(tmp_path)
    world.settings(
        "retry_interval = 0.1\nstop_grace = 0.3\nbreakpoint_check_interval = 0.1\n"
        'pass_env = ["MODEL_KEY"]\nmax_retries = 1\nbaseline = false\nport = 0\n'
    )
    return world


def environment() -> Mapping[str, str]:
    return {name: value for name, value in SECRETS.items() if name != "PLAN_TOKEN"}


def test_a_loop_writes_no_secret_and_shows_none(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    root = world.repo / ".loopwright"
    plan = plan_of(world)
    with world.live("up", plan, serves=True, **environment()) as live:
        world.comes_to("AwaitingHuman")
        address = until(lambda: re.search(r"http://127[.0-9]+:\d+", live.err), "it listens")[0]
        shown = list(asked(address))
        with opened(f"{address}/api/v1/lifecycles/agent-T001/events", STREAM) as journal:
            shown.append(told_by(journal, b"***PLAN_TOKEN***"))
        body = json.dumps({"note": f"{FORGE} {PASSED} {GIVEN}"}).encode()
        shown.append(delivered(address, body))
        page = tmp_path / "summary.md"
        page.write_text(f"Mind {PASSED} and {FORGE}")
        world.call("summary", "edit", "agent-T001", "--file", str(page))
        world.call("guide", "agent-T001", f"mind {PASSED} and {FORGE}")
        with opened(f"{address}/api/v1/events", STREAM) as everything:
            world.call("answer", "agent-T001", f"yes, {PASSED} and {FORGE}")
            shown.append(told_by(everything, b"Working"))
        world.comes_to("Rejected")
    shown += [live.out.encode(), live.err.encode()]
    for command in COMMANDS:
        done = world.call(*command, code=None)
        shown += [done.stdout.encode(), done.stderr.encode()]
    assert written(root) == {}
    assert set().union(*map(found_in, shown)) == set()
    log = (root / "logs" / "agent-T001" / "1.log").read_text()
    assert "***MODEL_KEY***" in log
    assert "***PLAN_TOKEN***" in log
    assert "***GITHUB_TOKEN***" in log


COMMANDS = (
    ("show", "agent-T001", "--why"),
    ("show", "agent-T001", "--json"),
    ("events", "agent-T001"),
    ("events", "agent-T001", "--json"),
    ("summary", "agent-T001"),
    ("summary", "agent-T001", "2", "--diff"),
    ("costs", "--json"),
    ("pr", "list", "--json"),
    ("agents", "list", "--json"),
    ("logs", "agent-T001", "--attempt", "1"),
    ("ps", "--all", "--json"),
    ("audit", "--json"),
    ("export", "--json"),
    ("hooks", "list", "--json"),
)


STREAM = "text/event-stream"


def asked(address: str) -> Iterator[bytes]:
    one = "/api/v1/lifecycles/agent-T001"
    for path in ("/api/v1/lifecycles", one, f"{one}/attempts/1/log", f"{one}/summaries",
                 f"{one}/summaries/2", "/api/v1/instances", "/api/v1/statistics",
                 "/metrics"):  # fmt: skip
        with opened(address + path) as answer:
            yield answer.read()


def told_by(stream: Any, what: bytes) -> bytes:
    """Read a stream until it told something."""
    told = b""
    while what not in told:
        told += stream.readline()
    return bytes(told)


def opened(url: str, accept: str = "*/*") -> Any:
    headers = {"Authorization": f"Bearer {BEARER}", "Accept": accept}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  # our own server
    return urllib.request.urlopen(request, timeout=10)  # noqa: S310  # as above


def delivered(address: str, body: bytes) -> bytes:
    signature = hmac.new(HOOK.encode(), body, hashlib.sha256).hexdigest()
    request = urllib.request.Request(  # noqa: S310  # our own server
        f"{address}/hooks/generic",
        data=body,
        headers={
            "Content-Type": "application/json",
            "x-loopwright-signature": f"sha256={signature}",
            "x-loopwright-event": FORGE,
            "user-agent": PASSED,
        },
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  # as above
        data: bytes = answer.read()
        return data


def test_the_search_finds_every_form_that_it_looks_for(tmp_path: Path) -> None:
    masker = Masker(SECRETS)
    for name, (whole, _) in FORMS.items():
        (tmp_path / "file").write_bytes(b"a " + whole + b" b")
        assert name in written(tmp_path)["file"]
        assert found_in(masker.mask_bytes(b"a " + whole + b" b")) == set(), name
