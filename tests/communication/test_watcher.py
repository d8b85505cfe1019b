"""The watcher hands on every signal once, and no trouble with watching loses one."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from communication.mailbox import Mailbox, ReadingKind
from communication.watcher import MailboxWatcher
from runtime.proc_table import read_row
from tests.communication.hearing import AGENT, Heard, mail, replace, until, watchers, word
from tests.crowded import limited_user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from communication.subscription import Subscription

# ruff: noqa: ASYNC240  # the tests play the agent, which writes whenever it likes
NEVER_S = 1000.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
async def watcher() -> AsyncIterator[MailboxWatcher]:
    """Watch natively only: the poll is too slow to help."""
    async with MailboxWatcher(poll_interval=NEVER_S, settle_s=0.2) as watcher:
        yield watcher


def listen(watcher: MailboxWatcher, file: Path, **expected: Any) -> tuple[Heard, Subscription]:
    heard = Heard()
    identity = {"spawn_id": None, "task_id": None, **expected}
    return heard, watcher.subscribe(Mailbox(file), AGENT, on_reading=heard, **identity)


async def watched_natively(watcher: MailboxWatcher) -> None:
    await until(lambda: watcher._native is not None and not watcher._uncovered)


async def test_every_way_of_writing_is_seen(watcher: MailboxWatcher, file: Path) -> None:
    heard, _ = listen(watcher, file)
    await watched_natively(watcher)

    replace(file, mail(**{AGENT: word("by rename")}))
    await until(lambda: heard.summaries == ["by rename"])

    file.write_text(mail(**{AGENT: word("truncated and written")}))
    await until(lambda: heard.summaries[1:] == ["truncated and written"])

    with file.open("r+") as opened:
        opened.write(mail(**{AGENT: word("edited in place, longer than before")}))
    await until(lambda: heard.summaries[2:] == ["edited in place, longer than before"])

    file.unlink()
    file.write_text(mail(**{AGENT: word("deleted and recreated")}))
    await until(lambda: heard.summaries[3:] == ["deleted and recreated"])

    Mailbox(file).update(AGENT, lambda entry: entry.update(word("by update")))
    await until(lambda: heard.summaries[4:] == ["by update"])
    assert heard.kinds == ["signal"] * 5


async def test_a_signal_that_was_there_before_is_delivered_too(
    watcher: MailboxWatcher, file: Path
) -> None:
    file.write_text(mail())
    heard, _ = listen(watcher, file)
    assert heard.readings == []
    await until(lambda: heard.kinds == ["signal"])


async def test_the_same_signal_is_delivered_once_and_another_again(
    watcher: MailboxWatcher, file: Path
) -> None:
    heard, _ = listen(watcher, file)
    other, _ = listen(watcher, file)
    replace(file, mail())
    await until(lambda: len(heard.readings) == len(other.readings) == 1)
    replace(file, mail(**{AGENT: word(), "b": {"x": 1}}))
    replace(file, mail(**{AGENT: word(seq=2)}))
    await until(lambda: len(heard.readings) == len(other.readings) == 2)
    replace(file, mail(**{AGENT: word("last")}))
    await until(lambda: heard.summaries == other.summaries == ["did it", "did it", "last"])


async def test_a_torn_file_is_a_signal_only_once_it_is_whole(file: Path) -> None:
    async with MailboxWatcher(poll_interval=NEVER_S, settle_s=NEVER_S) as watcher:
        heard, _ = listen(watcher, file)
        sibling, _ = listen(watcher, file.with_name("other.json"))
        await watched_natively(watcher)
        text = mail()
        with file.open("w") as opened:
            opened.write(text[:25])
            opened.flush()
            # The other file's word comes later, so the torn one has been looked at by then.
            replace(file.with_name("other.json"), mail())
            await until(lambda: sibling.kinds == ["signal"])
            assert heard.readings == []
            opened.write(text[25:])
        await until(lambda: heard.readings)
        assert heard.kinds == ["signal"]


async def test_a_fault_is_told_once_and_only_after_it_has_settled(
    watcher: MailboxWatcher, file: Path
) -> None:
    loop = asyncio.get_running_loop()
    heard, _ = listen(watcher, file)
    await watched_natively(watcher)
    written = loop.time()
    replace(file, '{"half": ')
    await until(lambda: heard.readings)
    assert loop.time() - written >= 0.2
    assert heard.kinds == ["invalid"]
    assert "not valid JSON" in heard.readings[0].problem

    replace(file, '{"half": ')
    replace(file, mail())
    await until(lambda: len(heard.readings) == 2)
    replace(file, '{"half": ')
    replace(file, mail(**{AGENT: {"breakpoint": {"type": "?"}}}))
    await until(lambda: len(heard.readings) == 3)
    assert heard.kinds == ["invalid", "signal", "invalid"]
    assert "breakpoint.type" in heard.readings[2].problem


async def test_a_fault_that_keeps_changing_has_not_settled(file: Path) -> None:
    async with MailboxWatcher(polls_only=True, poll_interval=NEVER_S) as watcher:
        heard, subscription = listen(watcher, file)
        for now, (text, due) in enumerate(
            [("{", 2), ('{"', 3), ('{"a', 4), ('{"a', 4), ('{"a', None)]
        ):
            file.write_text(text)
            assert subscription.consider(Mailbox(file).load(), now, 2) == due
        await until(lambda: heard.kinds == ["invalid"])


async def test_a_stale_signal_is_delivered_as_such_once(
    watcher: MailboxWatcher, file: Path
) -> None:
    heard, _ = listen(watcher, file, spawn_id="spawn-4", task_id="T001")
    replace(file, mail(**{AGENT: word(spawn_id="spawn-3")}))
    await until(lambda: heard.kinds == ["stale"])
    replace(file, mail(**{AGENT: word(spawn_id="spawn-3"), "other": {}}))
    replace(file, mail(**{AGENT: word(spawn_id="spawn-4")}))
    await until(lambda: heard.kinds == ["stale", "signal"])


@pytest.mark.parametrize("kind", ["fifo", "symlink", "directory"])
async def test_a_planted_node_is_a_fault_and_a_good_file_in_its_place_a_signal(
    watcher: MailboxWatcher, file: Path, kind: str
) -> None:
    heard, subscription = listen(watcher, file)
    await watched_natively(watcher)
    match kind:
        case "fifo":
            os.mkfifo(file)
        case "symlink":
            file.symlink_to("/dev/zero")
        case _:
            file.mkdir()
    assert subscription.check().kind is ReadingKind.INVALID
    await until(lambda: heard.kinds == ["invalid"])
    Mailbox(file).clear(AGENT)
    file.write_text(mail())
    await until(lambda: heard.kinds == ["invalid", "signal"])


async def test_check_looks_right_now(watcher: MailboxWatcher, file: Path) -> None:
    heard, subscription = listen(watcher, file, spawn_id="spawn-4")
    assert subscription.check().kind is ReadingKind.ABSENT
    file.write_text(mail())
    assert subscription.check().kind is ReadingKind.SIGNAL
    assert heard.readings == []
    await until(lambda: heard.kinds == ["signal"])
    subscription.close()
    file.write_text(mail(**{AGENT: word(spawn_id="spawn-3")}))
    assert subscription.check().kind is ReadingKind.STALE


async def test_who_has_closed_hears_nothing_more(watcher: MailboxWatcher, file: Path) -> None:
    heard, subscription = listen(watcher, file)
    other, _ = listen(watcher, file)
    replace(file, mail())
    subscription.close()
    subscription.close()
    await until(lambda: other.kinds == ["signal"])
    assert heard.readings == []


async def test_an_error_in_a_callback_is_reported_and_harms_nobody(
    watcher: MailboxWatcher, file: Path
) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def fail(_: object) -> None:
        raise LookupError("the subscriber's own fault")

    watcher.subscribe(Mailbox(file), AGENT, spawn_id=None, task_id=None, on_reading=fail)
    heard, _ = listen(watcher, file)
    replace(file, mail())
    await until(lambda: heard.kinds == ["signal"])
    replace(file, mail(**{AGENT: word("again")}))
    await until(lambda: heard.summaries == ["did it", "again"])
    assert [type(context["exception"]) for context in reported] == [LookupError] * 2


async def test_nothing_watches_before_the_first_and_after_the_last_subscription(
    tmp_path: Path,
) -> None:
    assert watchers() == []
    async with MailboxWatcher() as watcher:
        assert watchers() == []
        subscriptions = []
        for number in range(30):
            folder = tmp_path / str(number)
            folder.mkdir()
            subscriptions.append(listen(watcher, folder / "communications.json")[1])
        await watched_natively(watcher)
        assert len(watchers()) == 1
        for subscription in subscriptions:
            subscription.close()
        await until(lambda: not watchers())
        assert watcher.degraded is None

        heard, _ = listen(watcher, tmp_path / "0" / "communications.json")
        await watched_natively(watcher)
        replace(tmp_path / "0" / "communications.json", mail())
        await until(lambda: heard.kinds == ["signal"])
    assert watchers() == []
    await watcher.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        listen(watcher, tmp_path / "communications.json")


async def test_closing_while_the_watch_is_being_built_leaves_nothing(file: Path) -> None:
    for _ in range(5):
        watcher = MailboxWatcher()
        listen(watcher, file)
        await until(lambda: watcher._native is not None)  # noqa: B023  # awaited at once
        await watcher.aclose()
        assert watchers() == []


async def test_a_respawn_in_the_same_folder_keeps_the_watch(
    watcher: MailboxWatcher, file: Path
) -> None:
    _, subscription = listen(watcher, file, spawn_id="spawn-1")
    await watched_natively(watcher)
    native = watcher._native
    for attempt in range(2, 6):
        subscription.close()
        Mailbox(file).clear(AGENT)
        heard, subscription = listen(watcher, file, spawn_id=f"spawn-{attempt}")
        assert watcher._uncovered == set()
        replace(file, mail(**{AGENT: word(spawn_id=f"spawn-{attempt}")}))
        await until(lambda: heard.kinds == ["signal"])  # noqa: B023  # awaited at once
    assert watcher._native is native


async def test_a_folder_that_was_removed_and_recreated_is_watched_again(
    watcher: MailboxWatcher, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    file = folder / "communications.json"
    heard, subscription = listen(watcher, file)
    await watched_natively(watcher)
    shutil.rmtree(folder)
    await until(lambda: watcher.degraded is not None)
    assert str(folder) in str(watcher.degraded)
    folder.mkdir()
    subscription.close()
    heard, _ = listen(watcher, file)
    await until(lambda: watcher.degraded is None)
    replace(file, mail())
    await until(lambda: heard.kinds == ["signal"])


@pytest.mark.parametrize("removal", ["deleted", "moved away", "not there yet"])
async def test_polling_finds_what_appears_where_the_watch_was_lost(
    tmp_path: Path, removal: str
) -> None:
    folder = tmp_path / "work"
    file = folder / "communications.json"
    if removal != "not there yet":
        folder.mkdir()
    async with MailboxWatcher(poll_interval=0.05) as watcher:
        heard, _ = listen(watcher, file)
        if removal != "not there yet":
            await watched_natively(watcher)
        if removal == "deleted":
            shutil.rmtree(folder)
        elif removal == "moved away":
            folder.rename(tmp_path / "elsewhere")
        await until(lambda: watcher.degraded)
        folder.mkdir()
        replace(file, mail())
        await until(lambda: heard.kinds == ["signal"])
        await until(lambda: watcher.degraded is None)


SHORT = """
import asyncio, os, resource, sys
from pathlib import Path
from communication.mailbox import Mailbox
from communication.watcher import MailboxWatcher
from runtime.proc_table import tasks_of

def no_descriptor():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        os.close(taken.pop())
    return taken

async def main(user, file):
    heard = asyncio.Event()
    if user:
        resource.setrlimit(resource.RLIMIT_NPROC, (tasks_of(int(user)) + 1,) * 2)
    async with MailboxWatcher(poll_interval=0.1) as watcher, asyncio.timeout(40):
        watcher.subscribe(
            Mailbox(file), "a", spawn_id=None, task_id=None, on_reading=lambda _: heard.set()
        )
        taken = [] if user else no_descriptor()
        while not watcher.degraded:
            await asyncio.sleep(0.01)
        print(watcher.degraded)
        file.write_text('{"a": {"breakpoint": {"type": "task_complete"}}}')
        await heard.wait()
        for descriptor in taken:
            os.close(descriptor)
        while taken and watcher.degraded:
            await asyncio.sleep(0.01)

asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
"""


@pytest.mark.parametrize("short_of", ["descriptors", "threads"])
async def test_without_native_watching_it_polls_and_says_so_and_recovers(
    file: Path, short_of: str
) -> None:
    """A library that gets no thread ends its process, and that is not the runner's."""
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 64
    user, prefix = limited_user(file.parent) if short_of == "threads" else ("", ())
    done = await asyncio.to_thread(
        subprocess.run,
        [*prefix, sys.executable, "-c", SHORT, str(user), str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ("Too many open files" in done.stdout) is (short_of == "descriptors")
    assert "polled every 0.1 s" in done.stdout


async def test_a_watching_process_that_dies_costs_no_breakpoint_and_is_restarted(
    file: Path,
) -> None:
    async with MailboxWatcher(poll_interval=0.05) as watcher:
        heard, _ = listen(watcher, file)
        await watched_natively(watcher)
        (first,) = watchers()
        os.kill(first, signal.SIGABRT)
        await until(lambda: watcher.degraded)
        assert "polled every 0.05 s" in str(watcher.degraded)
        replace(file, mail())
        await until(lambda: heard.kinds == ["signal"])
        await until(lambda: watcher.degraded is None)
        (second,) = watchers()
        assert second != first


async def test_the_watching_process_ends_with_its_runner(tmp_path: Path) -> None:
    code = f"""
import asyncio
from pathlib import Path
from communication.mailbox import Mailbox
from communication.watcher import MailboxWatcher
from runtime.proc_table import own_children

async def main():
    watcher = MailboxWatcher()
    watcher.subscribe(
        Mailbox(Path({str(tmp_path)!r}, "x.json")), "a",
        spawn_id=None, task_id=None, on_reading=print,
    )
    while watcher._uncovered:
        await asyncio.sleep(0.01)
    print(*own_children(), flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""
    runner = subprocess.Popen(  # noqa: ASYNC220  # it must be killed without its knowledge
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert runner.stdout is not None
        pid = int(await asyncio.to_thread(runner.stdout.readline))
        assert read_row(pid) is not None
    finally:
        runner.kill()
        runner.communicate()
    await until(lambda: (row := read_row(pid)) is None or row.dead)
