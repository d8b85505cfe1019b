"""A workspace is set up, not inherited; and so is what a change is judged in."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from lifecycle.machine.events import GatesFinished, RejectRequested, WorkspaceFailed
from lifecycle.result import LoopResultType
from runtime.setup.made_by_setup import WORKSPACE, read_stamp
from tests.lifecycle.setup.setups import lock, sh
from tests.lifecycle.world import AGENT, DONE, ROOT, Step, World, commit, says, until
from tests.tools.machine import gives

if TYPE_CHECKING:
    from lifecycle.machine.states import Gate


def install(world: World) -> str:
    """Return a package tool: it installs what the lock file says, and counts its calls."""
    return f"mkdir -p deps && cp lock.txt deps/installed && echo made >> {world.folder}/installs"


async def gates(world: World) -> tuple[Gate, ...]:
    events = [entry.event for entry in await world.journal()]
    return [event for event in events if isinstance(event, GatesFinished)][-1].gates


def installs(world: World) -> int:
    return len((world.folder / "installs").read_text().split())


def logs(world: World) -> list[str]:
    return sorted(path.name for path in world.paths.log(AGENT, 0).parent.glob("*.setup-*.log"))


async def test_workspace_and_judging_checkout_are_set_up_once_for_the_same_inputs(
    world: World,
) -> None:
    lock(world, "deps")
    seen = sh("cat deps/installed > seen.txt")
    result = await world.run(
        {1: [seen, {"commit": "seen"}, {"exit": 1}], 2: [*commit("x.txt"), DONE]},
        task=world.task(verify=["grep -q one deps/installed", "test -f x.txt"]),
        setup=(install(world),),
    )
    assert result.result_type is LoopResultType.TASK_COMPLETE, result
    assert world.git("show", f"agent/{AGENT}:seen.txt") == "one"
    # One in the workspace, one in the judging checkout before the baseline; none after that.
    assert installs(world) == 2
    assert logs(world) == ["0.setup-1.log", "0.setup-2.log"]


async def test_changed_inputs_are_set_up_again_in_both_places(world: World) -> None:
    lock(world, "deps")
    change = sh("echo two > lock.txt")
    result = await world.run(
        {1: [change, {"commit": "two"}, {"exit": 1}], 2: [sh("cat deps/installed"), DONE]},
        task=world.task(verify=["grep -q two deps/installed"]),
        setup=(install(world),),
    )
    assert result.result_type is LoopResultType.TASK_COMPLETE, result
    assert "two" in world.paths.log(AGENT, 2).read_text()
    assert installs(world) == 4


async def test_what_the_set_up_made_is_no_uncommitted_work_of_the_agent(world: World) -> None:
    lock(world)
    (world.repo / ".env").write_text("KEY=1\n")
    one = "git add x.txt && git -c user.name=x -c user.email=x@x commit -qm x"
    result = await world.run(
        {1: [{"write": {"path": "x.txt", "text": "x"}}, {"exit": 1}], 2: [sh(one), DONE]},
        task=world.task(verify=["grep -q KEY .env"]), setup=(install(world),), copy=(".env",),
    )  # fmt: skip
    assert result.result_type is LoopResultType.TASK_COMPLETE, result
    assert world.saved(1) == {"x.txt": "x"}
    stamp = read_stamp(world.paths.setup(AGENT), WORKSPACE)
    assert stamp is not None
    assert set(stamp.made) >= {"deps/installed", ".env"}


async def test_a_file_of_the_agent_beside_made_ones_is_its_own_work(world: World) -> None:
    lock(world)
    result = await world.run(
        {1: [{"write": {"path": "deps/mine.txt", "text": "x"}}, DONE], 2: [{"commit": "it"}, DONE]},
        setup=(install(world),),
    )
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1), result
    first, _ = await world.attempts()
    assert first.error.endswith("not committed: deps/mine.txt")


async def test_work_of_the_agent_among_what_the_set_up_made_is_not_lost(world: World) -> None:
    lock(world)
    make = "cat lock.txt; mkdir -p gen; cd gen; for n in $(seq 300); do [ -e $n ] || touch $n; done"
    work = sh("echo mine > gen/mine.py; echo edited > gen/7; cp gen/8 8; mv 8 gen/8")
    again = sh("echo two > lock.txt; git -c user.name=x -c user.email=x@x commit -qam two")
    result = await world.run(
        {1: [work, {"exit": 1}], 2: [again, {"exit": 1}], 3: [DONE]}, setup=(make,), max_retries=2
    )
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert len(logs(world)) == 2, "it was set up again, over that work"
    assert (await world.attempts())[2].error.endswith("not committed: gen/7, gen/mine.py")
    kept = {"gen/mine.py": "mine", "gen/7": "edited"}
    assert [world.saved(attempt) for attempt in (1, 3)] == [kept, kept]


async def test_a_set_up_that_fails_on_the_base_is_the_environments_fault(world: World) -> None:
    lock(world)
    result = await world.run(
        [DONE], task=world.task(verify=["true"]), setup=("echo no such host; exit 7",),
        max_environment_failures=1,
    )  # fmt: skip
    assert result.result_type is LoopResultType.ERROR
    assert "set-up command failed on the base: `echo no such host; exit 7`" in str(result.error)
    assert "ended with code 7: no such host (see " in str(result.error)
    failed = [entry.event for entry in await world.journal()]
    assert any(isinstance(event, WorkspaceFailed) for event in failed)
    assert result.spawn_count == 0


async def test_a_set_up_that_fails_only_for_the_change_is_a_red_verdict_told_to_the_next_attempt(
    world: World,
) -> None:
    lock(world, "deps")
    picky = "grep -q . lock.txt || { echo 'lock.txt is broken, says the installer'; exit 4; }"
    result = await world.run(
        {1: [sh("> lock.txt"), {"commit": "break it"}, DONE],
         2: [sh("echo two > lock.txt"), {"commit": "mend it"}, DONE]},
        task=world.task(verify=["true"]), setup=(picky, install(world)),
    )  # fmt: skip
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1), result
    assert await world.outcomes() == ["gate_failed", "task_complete"]
    assert "lock.txt is broken, says the installer" in world.prompt(2)
    assert picky in (await world.attempts())[0].error


async def test_a_change_that_breaks_its_set_up_is_told_also_without_a_verdict(
    world: World,
) -> None:
    lock(world, "deps")
    picky = "grep -q . lock.txt || { echo 'lock.txt is broken, says the installer'; exit 4; }"
    result = await world.run(
        {1: [sh("> lock.txt"), {"commit": "break it"}, {"exit": 1}],
         2: [sh("echo two > lock.txt"), {"commit": "mend it"}, DONE]},
        setup=(picky,),
    )  # fmt: skip
    assert result.result_type is LoopResultType.TASK_COMPLETE, result
    assert "lock.txt is broken, says the installer" in world.prompt(2)


BUILT = "grep -q right dist/a.txt"


async def test_a_set_up_that_builds_builds_the_commit_that_is_judged(world: World) -> None:
    (world.repo / "src").mkdir()
    (world.repo / "src" / "a.txt").write_text("wrong")
    lock(world, "dist")
    result = await world.run(
        {1: [*commit("b.txt"), DONE], 2: [*commit("src/a.txt", "right"), DONE]},
        task=world.task(verify=[BUILT]), setup=("rm -rf dist; cp -r src dist",), baseline=False,
    )  # fmt: skip
    assert await world.outcomes() == ["gate_failed", "task_complete"], result


@pytest.mark.parametrize("inputs", [(), ("src/**",)])
async def test_a_verdict_on_what_the_set_up_built_before_says_so(
    world: World, inputs: tuple[str, ...]
) -> None:
    (world.repo / "src").mkdir()
    (world.repo / "src" / "a.txt").write_text("wrong")
    lock(world, "dist")
    result = await world.run(
        [*commit("src/a.txt", "right"), DONE], task=world.task(verify=[BUILT]), max_retries=0,
        setup=("rm -rf dist; cp -r src dist",), setup_inputs=inputs,
    )  # fmt: skip
    if inputs:
        assert result.result_type is LoopResultType.TASK_COMPLETE, result
        return
    assert "the set-up made dist/, maybe from other code" in (await gates(world))[0].excerpt


# --- files behind pointers ---------------------------------------------------------------------


COMMITS = "git -c user.name=x -c user.email=x@x commit -qm work"


def pointer(world: World, content: str) -> str:
    """Store a file elsewhere, as git-lfs does, and return what a commit holds in its place."""
    oid = hashlib.sha256(content.encode()).hexdigest()
    (world.folder / "store").mkdir(exist_ok=True)
    (world.folder / "store" / oid).write_text(content)
    version = "version https://git-lfs.github.com/spec/v1"
    return f"{version}\noid sha256:{oid}\nsize {len(content)}\n"


def by_name(name: str, text: str) -> list[Step]:
    """Commit one file and nothing that the set-up put into place, as git-lfs would see to."""
    return [{"write": {"path": name, "text": text}}, sh(f"git add {name}; {COMMITS}"), DONE]


async def test_what_a_set_up_fetches_for_a_pointer_is_what_is_judged(world: World) -> None:
    """As with `git lfs pull`: a commit holds pointers, the set-up puts files in their place."""
    (world.repo / "one.bin").write_text(pointer(world, "real 1\n"))
    lock(world)
    world.git("remote", "add", "origin", 'https://me:key@example.org/a "b".git')
    fetch = (
        "for f in *.bin; do oid=$(sed -n 's/^oid sha256://p' $f); "
        f'test -z "$oid" || cp {world.folder}/store/$oid $f; done'
    )
    asks = "git remote get-url origin | grep -q '^https://example.org/a \"b\".git$'"
    spoil = "echo real fake > one.bin"
    second, third = pointer(world, "real 2\n"), pointer(world, "real 3\n")
    result = await world.run(
        {1: by_name("two.bin", second), 2: by_name("two.bin", third)},
        task=world.task(verify=[asks, spoil, "grep 'real 1' one.bin", "grep 'real 3' two.bin"]),
        setup=(fetch,), max_retries=2,
    )  # fmt: skip
    assert await world.outcomes() == ["gate_failed", "task_complete"], result
    assert [gate.ok for gate in await gates(world)] == [True, True, True, True]


async def test_a_set_up_puts_nothing_in_place_of_a_file_but_what_its_pointer_names(
    world: World,
) -> None:
    (world.repo / "check.sh").write_text("exit 1\n")
    (world.repo / ".gitattributes").write_text("check.sh filter=lfs\n")
    lock(world)
    result = await world.run(
        by_name("x.txt", "x"), task=world.task(verify=["sh check.sh"]), max_retries=0,
        setup=("test -f .git && exit; echo exit 0 > check.sh",),
    )  # fmt: skip
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert await world.outcomes() == ["gate_failed"]


# --- in a sandbox, in local CI, and when it is broken off --------------------------------------


async def test_in_a_sandbox_gates_cannot_write_what_the_set_up_made(world: World) -> None:
    opened = (str(world.folder), str(ROOT))
    if not gives(isolation="container"):
        return
    lock(world, "deps")
    forge = "! echo forged > deps/installed && ! touch deps/more && ! mv deps away && cat deps/*"
    result = await world.run(
        [*commit("x.txt"), DONE], isolation="container", sandbox_readable=opened,
        task=world.task(verify=[forge]), setup=("mkdir deps && cp lock.txt deps/installed",),
    )  # fmt: skip
    assert result.result_type is LoopResultType.TASK_COMPLETE, result
    gate = world.paths.gate_log(AGENT, 1, 1).read_text()
    assert gate.count("Read-only file system") == 2, gate


async def test_local_ci_builds_in_a_checkout_that_is_set_up(world: World) -> None:
    lock(world, "deps")
    picky = "grep -q . lock.txt || { echo 'lock.txt is broken, says the installer'; exit 4; }"
    waits = says("blocked", blocked_on=["ci"])
    result = await world.run(
        {1: [sh("> lock.txt"), {"commit": "break it"}, waits],
         2: [sh("echo two > lock.txt"), {"commit": "mend it"}, waits],
         3: [DONE]},
        ci=world.ci("cat deps/installed"), setup=(picky, install(world)),
    )  # fmt: skip
    assert result.result_type is LoopResultType.TASK_COMPLETE, result
    assert "lock.txt is broken, says the installer" in world.prompt(2)
    assert "`cat deps/installed` passed" in world.prompt(3)


async def test_a_set_up_that_a_person_ends_is_not_waited_for(world: World) -> None:
    lock(world, "deps")
    hangs = "grep -q one lock.txt || sleep 600"
    steps = {1: [sh("echo two > lock.txt"), {"commit": "two"}, {"exit": 1}]}
    async with world.running(steps, setup=(hangs,)) as running:
        await running.at("Spawning", times=2)
        await until(lambda: any(".setup1" in mark for mark in world.marked()))
        await running.ask(RejectRequested, why="enough")
        result = await running.result()
    assert result.result_type is LoopResultType.ERROR
    assert "enough" in str(result.error)
    assert world.marked() == []


async def test_a_set_up_that_a_runner_left_in_the_middle_is_begun_again(world: World) -> None:
    lock(world, "deps")
    waits = f"{install(world)}; test -f {world.folder}/go || sleep 600"
    script = [*commit("x.txt"), DONE]
    task = world.task(verify=["grep -q one deps/installed"])
    async with world.running(script, task=task, setup=(waits,)):
        await until(lambda: any(".setup1" in mark for mark in world.marked()))
    assert world.marked() == []
    (world.folder / "go").touch()
    result = await world.run(script, task=task)
    assert result.result_type is LoopResultType.TASK_COMPLETE, result


async def test_a_set_up_has_a_time_limit(world: World) -> None:
    lock(world, "deps")
    result = await world.run(
        [DONE], setup=("sleep 600",), setup_timeout=0.2, max_environment_failures=0
    )
    assert "`sleep 600` ran out of time" in str(result.error)
    assert world.marked() == []


async def test_a_task_may_have_a_set_up_of_its_own(world: World) -> None:
    lock(world, "deps")
    task = world.task(setup=["mkdir deps"], verify=["test -d deps"])
    result = await world.run([*commit("x.txt"), DONE], task=task, setup=("exit 1",))
    assert result.result_type is LoopResultType.TASK_COMPLETE, result


# --- ports ------------------------------------------------------------------------------------


async def test_agent_set_up_and_gates_have_the_same_ports_in_all_attempts_of_a_lifecycle(
    world: World,
) -> None:
    say = "echo port $LOOPWRIGHT_PORT"
    await world.run(
        {1: [sh(say), {"exit": 1}], 2: [sh(say), *commit("x.txt"), DONE]},
        task=world.task(verify=[say]), setup=(say,),
    )  # fmt: skip
    folder = world.paths.log(AGENT, 0).parent
    said = {
        line
        for log in folder.glob("*.log")
        for line in log.read_text().splitlines()
        if line.startswith("port ")
    }
    (port,) = said
    assert int(port.removeprefix("port ")) > 1024
    assert len(list(folder.glob("*.log"))) >= 6
