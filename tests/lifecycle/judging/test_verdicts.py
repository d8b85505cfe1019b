"""What is called green is green: verdicts are about the files of the commit and nothing else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.judging.flagged_files import flagged
from lifecycle.machine.states import Completed
from lifecycle.result import LoopResultType
from tests.lifecycle.world import AGENT, DONE, ROOT, Step, World, commit, git
from tests.runtime.processes import hiding
from tests.runtime.processes.hiding import HIDDEN, IGNORED, WORK, base_of
from tests.tools.machine import gives

if TYPE_CHECKING:
    from tests.runtime.processes.hiding import Way

HIDING = (ROOT / "tests" / "runtime" / "processes" / "hiding.py").read_text()
CALL = """
import subprocess
def cli(folder, *args):
    done = subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
{way}(Path.cwd(), cli)
"""
RED = "sh check.sh"
HELPED = "test -e helper"
BOXED = (
    hiding.assume_unchanged, hiding.skip_worktree, hiding.clean_filter, hiding.forged_stat,
    hiding.committed_ignore, hiding.ignored_repository,
)  # fmt: skip
"""What works in a sandbox, too, where the repository's own files can only be read."""


def hides(way: Way) -> list[Step]:
    """Let an agent commit something, hide something else, and say that it is done."""
    script = HIDING + CALL.format(way=way.__name__)
    return [*commit("x.txt"), {"run": [sys.executable, "-c", script]}, DONE]


def kept(world: World) -> str:
    refs = world.git("for-each-ref", "--format=%(refname)", "refs/loopwright/saved").split()
    return "\n".join(world.git("log", "-p", "-m", "--text", ref) for ref in refs)


async def judge(world: World, way: Way, gate: str, level: str) -> None:
    """See a hidden change judged: never green, and never lost."""
    if not gives(isolation=level):
        return
    base_of(world.repo, git)
    result = await world.run(
        hides(way), task=world.task(verify=[gate]), isolation=level, max_retries=0,
        sandbox_readable=(str(world.folder), str(ROOT)), baseline=False,
    )  # fmt: skip
    assert result.result_type is LoopResultType.MAX_RETRIES, result
    fooled = await asyncio.to_thread(
        subprocess.run, ["sh", "-c", gate], cwd=world.workspace, check=False
    )
    assert fooled.returncode == 0, "in the workspace itself the gate is green"
    loop = world.loop()
    await loop.cleanup_agent(AGENT)
    assert not world.workspace.exists()
    assert WORK in kept(world)


@pytest.mark.parametrize("way", HIDDEN, ids=lambda way: way.__name__)
async def test_a_hidden_change_turns_no_red_gate_green_and_is_not_lost(
    world: World, way: Way
) -> None:
    await judge(world, way, RED, "process")


@pytest.mark.parametrize("way", IGNORED, ids=lambda way: way.__name__)
async def test_an_ignored_helper_turns_no_red_gate_green_and_is_not_lost(
    world: World, way: Way
) -> None:
    await judge(world, way, HELPED, "process")


@pytest.mark.parametrize("way", [*HIDDEN, *IGNORED], ids=lambda way: way.__name__)
async def test_what_is_hidden_in_a_sandbox_turns_no_red_gate_green_and_is_not_lost(
    world: World, way: Way
) -> None:
    gate = RED if way in HIDDEN else HELPED
    if way in BOXED:
        await judge(world, way, gate, "container")
    elif gives(isolation="container"):
        base_of(world.repo, git)
        await world.run(
            hides(way), task=world.task(verify=[gate]), isolation="container", max_retries=0,
            sandbox_readable=(str(world.folder), str(ROOT)), baseline=False,
        )  # fmt: skip
        assert await world.outcomes() == ["error"], "it cannot even be done in there"


@pytest.mark.parametrize("level", ["process", "container"])
async def test_a_link_out_of_the_repository_is_red(world: World, level: str) -> None:
    if not gives(isolation=level):
        return
    ignored: list[Step] = [{"run": ["sh", "-c", "mkdir built; echo x > built/lib"]}]
    link: list[Step] = [{"run": ["sh", "-c", 'ln -s "$PWD/built/lib" lib']}, {"commit": "a link"}]
    base_of(world.repo, git)
    result = await world.run(
        [*ignored, *link, DONE], task=world.task(verify=["true"]), isolation=level,
        sandbox_readable=(str(world.folder), str(ROOT)), max_retries=1, baseline=False,
    )  # fmt: skip
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert "lead out of the repository" in world.prompt(2)


async def test_what_an_agent_hides_by_rules_of_its_own_is_told_to_the_next(world: World) -> None:
    base_of(world.repo, git)
    script = HIDING + CALL.format(way="committed_ignore")
    await world.run(
        {1: [{"run": [sys.executable, "-c", script]}, {"exit": 1}], 2: [*commit("x.txt"), DONE]}
    )
    assert "helper/sitecustomize.py" in world.prompt(2)
    assert "are not judged" in world.prompt(2)


ONE_GATE_FOR_THE_NEXT = {
    "a committed file": "cp .git/orig check.sh",
    "a configuration": "echo exit 0 > linter.ini",
    "a hook": "printf '#!/bin/sh\\nexit 0' > .git/fake; chmod +x .git/fake",
}


@pytest.mark.parametrize("what", ONE_GATE_FOR_THE_NEXT)
async def test_no_gate_decides_about_the_next(world: World, what: str) -> None:
    (world.repo / "check.sh").write_text("test -x .git/fake && exit 0\n. ./linter.ini\nexit 1\n")
    (world.repo / "test.sh").write_text(". ./lib.sh\n")
    (world.repo / "lib.sh").write_text("true\n")
    git(world.repo, "add", ".")
    git(world.repo, "commit", "-qm", "two gates")
    planted = f"echo exit 0 > .git/orig; {ONE_GATE_FOR_THE_NEXT[what]}\n"
    result = await world.run(
        [*commit("lib.sh", planted), DONE], max_retries=0, baseline=False,
        task=world.task(verify=["sh test.sh", "sh check.sh"]),
    )  # fmt: skip
    assert result.result_type is LoopResultType.MAX_RETRIES, await notes(world)


@pytest.mark.parametrize("where", ["vendor", "src/.git"])
async def test_nothing_stays_in_a_checkout_where_git_does_not_look(
    world: World, where: str
) -> None:
    link = (
        "git update-index --add --cacheinfo 160000,1111111111111111111111111111111111111111,vendor"
    )
    commits = "git -c user.name=x -c user.email=x@x commit -qm work"
    gate = f"test -e {where}/ok && exit 0; mkdir -p {where}; touch {where}/ok; exit 1"
    first: list[Step] = [*commit("src/x.txt"), {"run": ["sh", "-c", f"{link}; {commits}"]}, DONE]
    second: list[Step] = [*commit("src/y.txt"), DONE]
    result = await world.run(
        {1: first, 2: second}, task=world.task(verify=[gate]), max_retries=1, baseline=False
    )
    assert result.result_type is LoopResultType.MAX_RETRIES


async def test_line_ends_that_git_tells_otherwise_since_are_no_change(world: World) -> None:
    (world.repo / "a.bat").write_bytes(b"one\r\ntwo\r\n")
    git(world.repo, "add", ".")
    git(world.repo, "commit", "-qm", "as it came")
    (world.repo / ".gitattributes").write_text("*.bat text eol=crlf\n")
    git(world.repo, "add", ".gitattributes")
    git(world.repo, "commit", "-qm", "attributes")
    one = "git add x.txt && git -c user.name=x -c user.email=x@x commit -qm x"
    script: list[Step] = [{"run": ["sh", "-c", f"echo x > x.txt; {one}"]}, DONE]
    result = await world.run(script, task=world.task(verify=["true"]), canary="off")
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0), result


async def notes(world: World) -> str:
    work = await world.work()
    assert isinstance(work, Completed)
    return "; ".join(work.notes)


async def test_gates_that_do_not_look_at_what_changed_are_told(world: World) -> None:
    result = await world.run([*commit("lib.py", "x = 1"), DONE], task=world.task(verify=["true"]))
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert "do not look at what changed: they stay green with lib.py broken" in await notes(world)


async def test_gates_that_look_at_what_changed_say_no_more(world: World) -> None:
    gate = f"{sys.executable} -c 'import lib; assert lib.x == 1'"
    await world.run(
        [*commit("lib.py", "x = 1"), DONE], task=world.task(verify=[gate]), baseline=False
    )
    assert await notes(world) == ""


async def test_a_canary_can_be_required(world: World) -> None:
    result = await world.run(
        [*commit("lib.py", "x = 1"), DONE], task=world.task(verify=["true"]), canary="require",
        max_retries=1,
    )  # fmt: skip
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert "do not look at what changed" in world.prompt(2)


@pytest.mark.parametrize("given", [{"canary": "off"}, {"name": "docs/guide.md"}])
async def test_no_canary_is_asked_about_texts_or_when_it_is_off(
    world: World, given: dict[str, Any]
) -> None:
    given = {**given}
    name = given.pop("name", "lib.py")
    runs = world.folder / "runs"
    gate = f"echo x >> {runs}"
    await world.run([*commit(name), DONE], task=world.task(verify=[gate]), baseline=False, **given)
    assert (await notes(world), len(runs.read_text().split())) == ("", 1)


async def test_a_canary_is_asked_once_for_the_same_files(world: World) -> None:
    runs = world.folder / "runs"
    gate = f"echo x >> {runs}"
    more: Step = {"append": {"path": "lib.py", "text": "y = 1\n"}}
    result = await world.run(
        [more, {"commit": "more"}, DONE], task=world.task(verify=[gate]), canary="require",
        max_retries=1, baseline=False,
    )  # fmt: skip
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert len(runs.read_text().split()) == 3


async def test_a_changed_test_is_judged_in_its_old_form_too(world: World) -> None:
    (world.repo / "lib.sh").write_text("echo 1\n")
    (world.repo / "test_lib.sh").write_text('test "$(sh lib.sh)" = 1\n')
    git(world.repo, "add", ".")
    git(world.repo, "commit", "-qm", "a tested library")
    weakened = [*commit("lib.sh", "echo 2\n"), *commit("test_lib.sh", "sh lib.sh\n"), DONE]
    result = await world.run(weakened, task=world.task(verify=["sh test_lib.sh"]))
    assert result.result_type is LoopResultType.TASK_COMPLETE
    told = await notes(world)
    assert "with test_lib.sh as before the change: 1 failed" in told


RULES = (
    "sitecustomize.py", ".gitignore", ".gitattributes", "build.rs", ".cargo/config.toml",
    "phpunit.xml", "loopwright.toml", "pyproject.toml", "tools/check.py", "sub/package.json",
    "tests/data.bin",
)  # fmt: skip


def test_rules_of_judgement_are_flagged() -> None:
    files = (*RULES, "src/lib.py", "docs/guide.md")
    assert flagged(files, ("python -m tools.check",)) == RULES
