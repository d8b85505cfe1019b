"""A forge is a folder and one line: what is added so is known everywhere, and nothing else is."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ci import forge_registry
from ci.forge_registry import FORGES, SENDERS, forge_kind, webhooks_of
from tests.ci.ports import git
from tests.product_copy import ROOT, ProductCopy

SETTINGS = """\
providers = ["toy"]
forge_url = "file://{origin}"
forge_repo = "team/app"
auto_merge = true
checks_grace = 0
retry_interval = 0.1
breakpoint_check_interval = 0.1
"""
SCRIPT = {
    "attempts": {
        "1": [
            {"write": {"path": "calc.py", "text": "x = 1\n"}},
            {"commit": "Begin"},
            {"breakpoint": {"type": "pr_created", "summary": "Please merge"}},
        ],
        "default": [{"breakpoint": {"type": "task_complete", "summary": "All is merged"}}],
    }
}
ENV = {"LOOPWRIGHT_TOY_TOKEN": "toy-token", "LOOPWRIGHT_TOY_HOOK_SECRET": "hush"}


class Grown(ProductCopy):
    """The product with a forge more, and a repository with a bare origin."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.origin = folder / "o.git"
        self.env = ENV
        shutil.copytree(Path(__file__).with_name("toy_forge"), self.site / "ci" / "toy")
        self.insert(forge_registry, "FORGES = (\n", '    "toy",\n')
        self.git("init", "-q", "--bare", "-b", "main", str(self.origin))
        (self.repo / "loopwright.toml").write_text(SETTINGS.format(origin=self.origin))
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "First")
        self.git("remote", "add", "origin", str(self.origin))
        self.git("push", "-q", "origin", "main")


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    return Grown(tmp_path_factory.mktemp("grown"))


def test_a_run_with_a_forge_of_one_folder_and_one_line_reaches_a_merge(
    grown: Grown, tmp_path: Path
) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    command = f"{Path(sys.executable).with_name('loopwright-agent')} {script}"
    ended = json.loads(grown.command("run", "Calculate", "--command", command, "--json"))
    assert ended["result_type"] == "task_complete"
    assert git(grown.origin, "show", "main:calc.py")[1].strip() == b"x = 1"

    # What it sends is understood, too.
    saved = tmp_path / "saved.json"
    saved.write_text(json.dumps({"branch": "agent/nobody"}))
    grown.command("hooks", "replay", str(saved), "--provider", "toy", "--event", "pushed")
    listed = json.loads(grown.command("hooks", "list", "--provider", "toy", "--json"))
    assert [each["event"] for each in listed["deliveries"]] == ["pushed"]


def test_its_hosts_settings_and_secrets_are_known(grown: Grown) -> None:
    assert "toy" in grown.command("hooks", "--help")
    told = json.loads(grown.command("settings", "--json"))
    assert "toy" in json.dumps(told)
    asked = "from ci.remote_url import kind_of; print(kind_of('toy.example'))"
    assert grown.runs("-c", asked).strip() == "toy"


@pytest.mark.parametrize("name", FORGES)
def test_who_uses_one_forge_loads_no_other(name: str) -> None:
    loads = (
        f"import sys; from ci.forge_registry import forge_kind, webhooks_of; webhooks_of({name!r});"
        "from ci.forge.rest import Connection; from ci.forge.sign_in import SignInContext;"
        f"kind = forge_kind({name!r});"
        "kind.sign_in(SignInContext(environ={}, host=''));"
        "kind.make(Connection(repo='a/b', api='http://x', web_url='',"
        "sign=None, now=None));"
        "print(' '.join(sys.modules))"
    )
    done = subprocess.run(
        (sys.executable, "-c", loads), cwd=ROOT, capture_output=True, text=True, check=True
    )
    others = [each for each in FORGES if each != name]
    assert f"ci.{name}" in done.stdout
    assert not [each for each in done.stdout.split() if any(f".{o}" in each for o in others)]


def test_the_names_of_the_forges_cost_nothing() -> None:
    loads = (
        "import sys; import ci.forge_registry;"
        "print(*(m for m in sys.modules if m.startswith('ci')))"
    )
    done = subprocess.run(
        (sys.executable, "-c", loads), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["ci", "ci.forge_registry"]


def test_each_forge_is_registered_by_its_own_name() -> None:
    for name in FORGES:
        assert forge_kind(name).name == name
    for sender in SENDERS:
        assert callable(webhooks_of(sender).signed)
