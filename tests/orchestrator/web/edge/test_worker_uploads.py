"""Workers say that they live, and hand in what their own attempts left, and nothing else."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

import pytest

from lifecycle.machine import states as st
from lifecycle.paths import Paths
from lifecycle.record import AgentLifecycle, placed
from lifecycle.worker.sign_of_life import SignOfLife, SignsOfLife
from lifecycle.worker.upload import AttemptUploads, CoordinatorAddress
from orchestrator.web.bound_server import bound
from orchestrator.web.pages.board import BoardNews
from orchestrator.web.reading.board import BoardFilter
from tests.lifecycle.every_state import EVERY
from tests.orchestrator.web.webkit import TOKEN, WORKER_TOKEN, client_of, raw, site
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.orchestrator.web.webkit import Site

WORKING = next(state for state, _, _ in EVERY if type(state) is st.Working)
ATTEMPT = st.attempt_of(WORKING)
BASE = f"/api/worker/attempts/agent-T1/{ATTEMPT}"
SECRET = "hunter2-hunter2-hunter2"  # noqa: S105  # opens nothing
OCTETS = {"content-type": "application/octet-stream"}


@pytest.fixture
def there(tmp_path: Path) -> Paths:
    """Return the places on a worker's machine, where an attempt left a few files."""
    paths = Paths.of(tmp_path / "worker")
    files = {
        paths.log("agent-T1", ATTEMPT): b"printed\n",
        paths.gate_log("agent-T1", ATTEMPT, 1): b"green\n",
        paths.summary("agent-T1", ATTEMPT): b"# told\n",
        paths.edited("agent-T1", ATTEMPT): b"a person's own\n",
        paths.log("agent-T1", ATTEMPT + 1): b"of the next one\n",
    }
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return paths


async def forwarding(port: int, to: int) -> asyncio.Server:
    """Pass what comes to a port on to another."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, on = await asyncio.open_connection("127.0.0.1", to)
        await asyncio.gather(copy(reader, on), copy(back, writer))

    return await asyncio.start_server(passed, "127.0.0.1", port)


async def _record(found: Site, worker: str = "a") -> AgentLifecycle:
    facts = {"task": {"id": "T1"}, "agent": {}}
    return await found.store.create(
        AgentLifecycle(
            agent_id="agent-T1",
            task_id="T1",
            task="Far",
            state=st.coarse(WORKING),
            work=WORKING,
            facts=placed(facts, "m", worker, ATTEMPT) if worker else facts,
        )
    )


def _worker(found: Site, token: str = WORKER_TOKEN) -> httpx.AsyncClient:
    client = client_of(found.server.url, token)
    client.headers.update({"x-loopwright-worker": "a", **OCTETS})
    return client


def _kept(found: Site) -> list[str]:
    """Name all files of attempts."""
    root = found.engine.machine.paths.root
    places = (root / name for name in ("logs", "summaries", "snapshots"))
    return sorted(
        str(each.relative_to(root))
        for place in places
        for each in place.rglob("*")
        if each.is_file()
    )


async def test_what_is_handed_in_is_found_where_this_machines_own_is(tmp_path: Path) -> None:
    async with site(tmp_path) as found, _worker(found) as worker:
        await _record(found)
        found.engine.shared.masker.learn({"API_KEY": SECRET})
        log = f"line one\nthe key is {SECRET}\n".encode()
        first = await worker.put(f"{BASE}/log", content=log)
        assert (first.status_code, first.json()) == (200, {"name": "log", "changed": True})
        shown = await found.client.get(f"/api/v1/lifecycles/agent-T1/attempts/{ATTEMPT}/log")
        assert "line one" in shown.text
        assert SECRET not in shown.text
        place = found.engine.machine.paths.log("agent-T1", ATTEMPT)
        assert place.stat().st_mode & 0o777 == 0o600
        before = place.stat()
        again = await worker.put(f"{BASE}/log", content=log)
        assert again.json()["changed"] is False
        assert place.stat() == before

        for name in ("summary", "snapshot", "prompt", "gate-1", "setup-2"):
            answer = await worker.put(f"{BASE}/{name}", content=f"{{}} quokka {name}".encode())
            assert answer.status_code == 200, answer.text
        hits = (await found.get("/search?q=quokka"))["items"]
        assert [each["lifecycle"]["agent_id"] for each in hits] == ["agent-T1"]
        assert _kept(found) == sorted(
            [
                *(f"logs/agent-T1/{ATTEMPT}{end}.log" for end in ("", ".gate-1", ".setup-2")),
                f"snapshots/agent-T1/{ATTEMPT}.json",
                f"summaries/agent-T1/{ATTEMPT}.md",
                f"summaries/agent-T1/{ATTEMPT}.prompt.md",
            ]
        )


async def test_only_the_worker_of_an_attempt_hands_in_its_files(tmp_path: Path) -> None:
    async with site(tmp_path) as found, _worker(found) as worker:
        record = await _record(found)
        asked: list[tuple[int, str, dict[str, str]]] = [
            (401, f"{BASE}/log", {"authorization": f"Bearer {TOKEN}"}),
            (401, f"{BASE}/log", {"authorization": ""}),
            (403, f"{BASE}/log", {"x-loopwright-worker": "b"}),
            (403, f"{BASE}/log", {"x-loopwright-worker": ""}),
            (403, f"/api/worker/attempts/agent-T1/{ATTEMPT + 1}/log", {}),
            (403, f"{BASE}/log", {"x-loopwright-birth": "another"}),
            (404, f"/api/worker/attempts/agent-T2/{ATTEMPT}/log", {}),
            (200, f"{BASE}/log", {"x-loopwright-birth": record.birth}),
        ]
        for status, path, headers in asked:
            answer = await worker.put(path, content=b"x", headers=headers)
            assert answer.status_code == status, (path, headers, answer.text)
        # Its token opens nothing else.
        assert (await worker.get("/api/v1/lifecycles")).status_code == 401
        # Another took the attempt over; what it left in the one before is still its own to give.
        moved = placed(record.facts, "m2", "b", ATTEMPT + 1)
        assert moved["attempt_workers"] == {str(ATTEMPT): "a", str(ATTEMPT + 1): "b"}
        record.facts = moved
        await found.store.update(record)
        assert (await worker.put(f"{BASE}/log", content=b"late")).status_code == 200
        record.facts = placed(record.facts, "m2", "b", ATTEMPT)
        await found.store.update(record)
        assert (await worker.put(f"{BASE}/log", content=b"later")).status_code == 403
        assert found.engine.machine.paths.log("agent-T1", ATTEMPT).read_bytes() == b"late"


async def test_what_this_machine_ran_itself_is_no_workers(tmp_path: Path) -> None:
    async with site(tmp_path) as found, _worker(found) as worker:
        await _record(found, worker="")
        answer = await worker.put(f"{BASE}/log", content=b"x")
        assert answer.status_code == 403
        assert "the coordinator itself has it" in answer.text


@pytest.mark.parametrize(
    "name",
    [
        "..%2f..%2fstate.db",
        "../../../state.db",
        "%2e%2e/log",
        "gate-1.log",
        "gate-0",
        "gate-99999",
        "edited",
        "LOG",
        "log%00",
        "log/",
        "",
        "x" * 300,
    ],
)
async def test_a_name_that_no_attempt_leaves_is_refused(tmp_path: Path, name: str) -> None:
    async with site(tmp_path) as found:
        await _record(found)
        head = (
            f"PUT {BASE}/{name} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
            f"authorization: Bearer {WORKER_TOKEN}\r\nx-loopwright-worker: a\r\n"
            "content-length: 1\r\n\r\nx"
        )
        status = int((await raw(found.port, head.encode())).split()[1])
        assert status in {400, 404, 422}
        assert _kept(found) == []


async def test_a_file_beyond_the_cap_of_logs_is_refused_and_nothing_is_kept(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, _worker(found) as worker:
        await _record(found)
        cap = found.services.runner.settings().log_cap_bytes
        answer = await worker.put(f"{BASE}/log", content=b"x" * (cap + 5000))
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
        assert _kept(found) == []


async def test_a_worker_that_dies_in_the_middle_leaves_what_was_there(tmp_path: Path) -> None:
    async with site(tmp_path) as found, _worker(found) as worker:
        await _record(found)
        assert (await worker.put(f"{BASE}/log", content=b"whole")).status_code == 200
        head = (
            f"PUT {BASE}/log HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {WORKER_TOKEN}"
            "\r\nx-loopwright-worker: a\r\ncontent-length: 1000\r\n\r\nhalf"
        )
        _, writer = await asyncio.open_connection("127.0.0.1", found.port)
        writer.write(head.encode())
        await writer.drain()
        writer.transport.abort()

        async def noticed() -> bool:
            return found.services.turned_away["gone"] == 1

        await until(noticed, "the server noticed that nobody is there")
        assert _kept(found) == [f"logs/agent-T1/{ATTEMPT}.log"]
        assert found.engine.machine.paths.log("agent-T1", ATTEMPT).read_bytes() == b"whole"


async def test_a_folder_that_leads_elsewhere_is_not_written_to(tmp_path: Path) -> None:
    async with site(tmp_path) as found, _worker(found) as worker:
        await _record(found)
        (elsewhere := tmp_path / "elsewhere").mkdir()
        logs = found.engine.machine.paths.root / "logs"
        logs.mkdir(exist_ok=True)
        (logs / "agent-T1").symlink_to(elsewhere)
        answer = await worker.put(f"{BASE}/log", content=b"x")
        assert answer.status_code == 422
        assert "symbolic link" in answer.text
        assert list(elsewhere.iterdir()) == []


async def test_a_worker_sends_all_files_of_an_attempt_beside_its_work(
    tmp_path: Path, there: Paths
) -> None:
    told: list[tuple[str, dict[str, object]]] = []

    def report(event: str, /, **fields: object) -> None:
        told.append((event, fields))

    async with site(tmp_path) as found:
        record = await _record(found)
        to = CoordinatorAddress(found.server.url, WORKER_TOKEN, "a")
        uploads = AttemptUploads(to, report, now=found.services.runner.now)
        uploads.begin(there, "agent-T1", record.birth, ATTEMPT)
        assert _kept(found) == []  # it did not wait
        await uploads.aclose(30.0)
        assert told == []
        assert _kept(found) == [
            f"logs/agent-T1/{ATTEMPT}.gate-1.log",
            f"logs/agent-T1/{ATTEMPT}.log",
            f"summaries/agent-T1/{ATTEMPT}.md",
        ]
        # What is another's is dropped after a while, and told with the place of the file.
        pauses: list[float] = []

        async def pause(seconds: float) -> None:
            pauses.append(seconds)

        other = CoordinatorAddress(found.server.url, WORKER_TOKEN, "b")
        uploads = AttemptUploads(other, report, now=found.services.runner.now, pause=pause)
        uploads.begin(there, "agent-T1", record.birth, ATTEMPT)
        await uploads.aclose(30.0)
        assert [event for event, _ in told] == ["attempt_upload_failed"] * 3
        assert (len(pauses), min(pauses), max(pauses)) == (3 * 7, 1.0, 60.0)
        assert all("403" in str(fields["reason"]) for _, fields in told)
        assert str(there.log("agent-T1", ATTEMPT)) in {fields["file"] for _, fields in told}


async def test_a_coordinator_that_is_away_is_asked_again_until_it_is_there(
    tmp_path: Path, there: Paths
) -> None:
    pauses: list[float] = []
    told: list[str] = []
    async with site(tmp_path) as found:
        record = await _record(found)
        gone = bound("127.0.0.1", 0)
        port = gone.getsockname()[1]
        gone.close()
        to = CoordinatorAddress(f"http://127.0.0.1:{port}", WORKER_TOKEN, "a")
        asked, back = asyncio.Event(), asyncio.Event()

        async def pause(seconds: float) -> None:
            pauses.append(seconds)
            asked.set()
            await back.wait()

        uploads = AttemptUploads(
            to, lambda event, /, **_: told.append(event), now=found.services.runner.now, pause=pause
        )
        uploads.begin(there, "agent-T1", record.birth, ATTEMPT)
        async with asyncio.timeout(60.0):
            await asked.wait()
        async with await forwarding(port, found.port):
            back.set()
            await uploads.aclose(60.0)
        assert told == []
        assert len(_kept(found)) == 3
        assert pauses[0] == 1.0


SIGN: dict[str, object] = {
    "name": "a",
    "machine": "m1",
    "version": "1.0",
    "slots": 4,
    "lease": 60.0,
    "now": 0.0,
    "labels": ["linux"],
    "lacks": ["codex is not installed"],
}


async def test_a_sign_of_life_is_kept_by_the_clock_of_the_coordinator(tmp_path: Path) -> None:
    async with site(tmp_path) as found, _worker(found) as worker:
        sent = SIGN | {"now": found.services.runner.now() - 300.0}
        assert (await worker.put("/api/worker/seen", json=sent)).json() == {"seen": True}
        (row,) = await found.store.workers.all()
        assert (row.name, row.slots, row.labels) == ("a", 4, ("linux",))
        assert abs(row.seen_at - found.services.runner.now()) < 60.0
        assert -400.0 < row.clock_offset < -250.0
        other = await worker.put("/api/worker/seen", json=sent | {"machine": "m2"})
        assert other.status_code == 409
        assert "--name" in other.text
        gone = await worker.put("/api/worker/seen", json=sent | {"leaves": True})
        assert gone.status_code == 200
        assert await found.store.workers.all() == ()


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"name": "../a"}, "name"),
        ({"slots": "many"}, "slots"),
        ({"lease": 0}, "lease"),
        ({"lacks": ["x" * 1000]}, "lacks"),
        ({"password": "x"}, "password"),
    ],
)
async def test_a_sign_that_is_none_is_refused_by_the_name_of_its_field(
    tmp_path: Path, wrong: dict[str, object], place: str
) -> None:
    async with site(tmp_path) as found, _worker(found) as worker:
        answer = await worker.put("/api/worker/seen", json=SIGN | wrong)
        assert (answer.status_code, place in answer.text) == (422, True)
        huge = await worker.put("/api/worker/seen", content=b"[" * 100_000)
        assert huge.status_code == 413
        stranger = await found.client.put("/api/worker/seen", json=SIGN)
        assert stranger.status_code == 401
        assert await found.store.workers.all() == ()


async def test_a_worker_is_heard_of_while_it_is_there_and_says_goodbye(tmp_path: Path) -> None:
    told: list[str] = []
    async with site(tmp_path) as found:
        to = CoordinatorAddress(found.server.url, WORKER_TOKEN, "a")
        signs = count()

        def sign() -> SignOfLife:
            now = found.services.runner.now()
            return SignOfLife.model_validate(
                SIGN | {"lease": 0.3, "now": now, "slots": next(signs)}
            )

        async with SignsOfLife(to, sign, lambda event, /, **_: told.append(event)):

            async def again() -> bool:
                known = await found.store.workers.all()
                return bool(known) and known[0].slots >= 2

            await until(again, "it was heard of again and again")
        assert await found.store.workers.all() == ()
        assert told == []
        wrong = CoordinatorAddress(found.server.url, "not-their-token-0123456789", "a")
        async with SignsOfLife(wrong, sign, lambda event, /, **_: told.append(event)):
            await until(lambda: told, "it says that it is not heard")
        assert told == ["worker_sign_failed"]  # once, as the reason stays the same


async def test_the_board_shows_at_once_who_came_and_who_left(tmp_path: Path) -> None:
    async with site(tmp_path) as found, _worker(found) as worker:
        news = BoardNews(found.services, BoardFilter(), operate=False)
        assert await news.pieces((), look=True) == []
        await worker.put("/api/worker/seen", json=SIGN)
        ((name, text),) = await news.pieces((), look=True)
        assert name == "workers"
        assert "0 of 4 slots" in text
        assert await news.pieces((), look=True) == []
        await worker.put("/api/worker/seen", json=SIGN | {"leaves": True})
        ((_, text),) = await news.pieces((), look=True)
        assert "slots" not in text
