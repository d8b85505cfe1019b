"""The parts of the kit: the prompt as a pipe, the reading of a log, a server that never answers."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from orchestrator.conformance import prompts
from orchestrator.conformance.case_hanging import silent_server
from orchestrator.conformance.prompt_pipe import PromptPipe
from orchestrator.conformance.replay import NOISE, first_problem, replay
from orchestrator.conformance.trial_log import TrialLog
from orchestrator.conformance.workbench import is_inside
from runtime.agents.catalogue import BUILT_IN, built_in
from tests.orchestrator.conformance.subjects import NOW

if TYPE_CHECKING:
    from pathlib import Path


async def test_what_nobody_reads_of_a_prompt_is_counted(tmp_path: Path) -> None:
    prompt = bytes(range(256)) * 1024
    with PromptPipe(tmp_path / "prompt", prompt) as pipe:
        assert pipe.unread() == len(prompt)
        reader = os.open(pipe.path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            pipe.pour()
            read = b""
            async with asyncio.timeout(10):
                while len(read) < 100_000:
                    await asyncio.sleep(0)
                    try:
                        read += os.read(reader, 100_000 - len(read))
                    except BlockingIOError:
                        continue
        finally:
            os.close(reader)
        assert read == prompt[: len(read)]
        assert pipe.unread() == len(prompt) - len(read)


async def test_a_reader_meets_the_end_of_the_prompt(tmp_path: Path) -> None:
    with PromptPipe(tmp_path / "prompt", b"x" * 300_000) as pipe:
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", f"wc -c < '{pipe.path}'"), stdout=asyncio.subprocess.PIPE
        )
        pipe.pour()
        async with asyncio.timeout(10):
            out, _ = await process.communicate()
        assert int(out) == 300_000
        assert pipe.unread() == 0


async def test_last_words_are_what_stands_between_the_events(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"type":"text","text":"rate limit, says the agent"}\nno room on the disk\n')
    reading = TrialLog(log, built_in("claude").parser(lambda: NOW, live=False))
    try:
        await reading.read_out()
        assert reading.tail() == "no room on the disk"
        assert len(reading.lines) == 2
    finally:
        reading.close()


async def test_a_silent_server_counts_who_asks_and_says_nothing() -> None:
    async with silent_server() as server:
        port = int(server.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        _, mute = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\n\r\n")
        await writer.drain()
        async with asyncio.timeout(10):
            while not server.asked:  # noqa: ASYNC110  # the server tells nobody
                await asyncio.sleep(0)
        assert server.asked == 1
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    for each in (writer, mute):
        each.close()
        await each.wait_closed()


@pytest.mark.parametrize("name", BUILT_IN)
def test_no_shipped_parser_fails_on_strange_lines(name: str) -> None:
    adapter = built_in(name)
    assert first_problem(adapter, lambda: NOW, NOISE) == ("", "")
    assert not replay(adapter, lambda: NOW, [], 1).good


def test_the_huge_prompt_has_its_size_and_asks_at_its_end() -> None:
    for size in (1000, 1001, 1 << 20):
        prompt = prompts.huge(size)
        assert len(prompt) == size
        assert prompt.endswith(prompts.READY)


@pytest.mark.parametrize(
    ("path", "inside"),
    [("a", True), ("a/../b", True), ("../a", False), ("a/../../b", False), (".", False)],
)
def test_a_file_is_inside_a_folder_only_where_it_cannot_leave_it(
    tmp_path: Path,
    path: str,
    inside: bool,  # noqa: FBT001  # a row of a table
) -> None:
    assert is_inside(tmp_path, tmp_path / path) is inside
