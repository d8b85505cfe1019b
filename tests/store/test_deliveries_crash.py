# ruff: noqa: ASYNC220  # nothing else runs in the loop of this test
"""A receiver that is killed loses no delivery that it acknowledged, and keeps none twice."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

from lifecycle.store.sqlite import SqliteStore
from tests.store.delivering import ROOT, SENDERS, command, sent

if TYPE_CHECKING:
    from pathlib import Path


def kept(path: Path) -> Counter[str]:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return Counter(name for (name,) in connection.execute("SELECT key FROM deliveries"))


async def test_a_killed_receiver_loses_and_doubles_nothing(path: Path) -> None:
    chance = random.Random(11)  # noqa: S311  # the moments of the kills, the same in every run
    acknowledged, found, news = set[str](), Counter[str](), Counter[str]()
    for turn in range(6):
        with subprocess.Popen(
            command(path, turn * 20), cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as receiver:
            assert receiver.stdout is not None
            wanted = chance.randrange(1, 900)
            for count, line in enumerate(receiver.stdout):
                name, fresh = line.split()
                acknowledged.add(sent(name).key)
                news[name] += fresh == "True"
                if count == wanted:
                    os.kill(receiver.pid, signal.SIGKILL)
        assert receiver.returncode == -signal.SIGKILL
        found = kept(path)
        assert set(found.values()) == {1}
        assert acknowledged <= set(found)
    assert news
    assert set(news.values()) <= {0, 1}, "nothing was taken for new twice"
    # At the end of each turn each sender may have had one that was kept, but not acknowledged.
    assert len(found) <= len(acknowledged) + 6 * SENDERS

    async with await SqliteStore.open(path) as store:
        for key in acknowledged:
            whole = await store.deliveries.get(key)
            assert whole == sent(key.removeprefix("github:"))
