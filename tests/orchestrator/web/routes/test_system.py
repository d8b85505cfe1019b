"""How the server says that it lives, that it is ready, and what it counts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from lifecycle.fleet.spawner.metrics import Metrics
from orchestrator.runner.settings_audit import SEEN
from orchestrator.web.live.prometheus import MetricsText
from tests.orchestrator.loopkit import ASK, DONE
from tests.orchestrator.web.webkit import Options, Site, site
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


async def ready(found: Site) -> int:
    """Ask whether it is ready, with no answer kept from before."""
    found.services.probe._known = None
    return (await found.client.get("/readyz")).status_code


async def test_it_is_ready_only_while_the_store_takes_writes(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        assert await ready(found) == 200
        found.services.probe._patience = 0.2
        with closing(sqlite3.connect(found.engine.machine.paths.database)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert await ready(found) == 503
            found.services.probe._patience = found.services.probe._fresh = 600
            assert (await found.client.get("/readyz")).status_code == 503  # known, not tried again
            answer = await found.client.get("/readyz")
            assert answer.json() == {
                "status": "not ready",
                "reason": "the store cannot be written",
            }
            assert (await found.client.get("/healthz")).status_code == 200
            other.rollback()

        async def again() -> bool:
            return await ready(found) == 200

        await until(again, "it is ready again")


async def test_it_is_not_ready_when_the_database_cannot_be_written(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        found.services.probe._patience = 20.0
        store = found.engine.shared.store

        async def has_begun() -> bool:
            return SEEN in await store.all(SEEN)

        await until(has_begun, "all is written that is written when a runner begins")
        assert await ready(found) == 200
        with closing(sqlite3.connect(found.engine.machine.paths.database, timeout=20)) as other:
            other.execute("ALTER TABLE documents RENAME TO papers")
            assert await ready(found) == 503
            other.execute("ALTER TABLE papers RENAME TO documents")
        assert await ready(found) == 200


async def test_it_is_not_ready_on_its_way_to_its_end(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        found.services.leave()
        assert await ready(found) == 503
        assert (await found.client.get("/healthz")).status_code == 200


async def test_checks_write_no_more_than_once_in_a_while(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        for _ in range(20):
            assert (await found.client.get("/readyz")).status_code == 200
        shot = found.services.probe.latency()
        assert shot is not None
        assert shot.count <= 2


async def numbers(found: Site) -> dict[str, float]:
    """Read the metrics as Prometheus does."""
    answer = await found.client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parsed(answer.text)


def parsed(text: str) -> dict[str, float]:
    """Read the text form: a type before each family, each sample once."""
    found: dict[str, float] = {}
    families: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in families
            assert kind in ("counter", "gauge", "histogram", "summary")
            families.add(name)
        elif not line.startswith("#"):
            sample, _, value = line.rpartition(" ")
            assert sample not in found
            base = sample.partition("{")[0]
            assert any(base in (f, f"{f}_bucket", f"{f}_sum", f"{f}_count") for f in families)
            found[sample] = float(value)
    return found


async def test_what_happened_is_counted(tmp_path: Path) -> None:
    options = Options(budgets={"github": 4321, "gitea": None})
    async with site(tmp_path, options) as found:
        agent = await found.add("asks", {"attempts": {"1": [ASK], "default": [{"exit": 3}]}})
        await found.comes_to("AwaitingHuman", agent)
        await found.add("done", [DONE])
        await found.comes_to("Completed", "done")
        before = await numbers(found)
        assert before['loopwright_lifecycles{state="needs-you"}'] == 1
        assert before['loopwright_lifecycles{state="done"}'] == 1
        assert before['loopwright_lifecycles_by_work_state{work_state="AwaitingHuman"}'] == 1
        assert before['loopwright_attempts_total{outcome="question"}'] == 1
        assert before['loopwright_attempts_total{outcome="task_complete"}'] == 1
        assert before["lifecycle_spawn_count_total"] == 2
        assert before['lifecycle_spawn_duration_seconds_bucket{le="+Inf"}'] == 2
        assert before["lifecycle_license_rejections_total"] == 0
        assert before['loopwright_forge_requests_remaining{forge="github"}'] == 4321
        assert 'loopwright_forge_requests_remaining{forge="gitea"}' not in before
        await found.post(f"/lifecycles/{agent}/answer", {"text": "x"})

        async def failed() -> bool:
            return (await numbers(found)).get('loopwright_attempts_total{outcome="error"}', 0) > 0

        await until(failed, "the attempt after the answer failed")
        await found.post(f"/lifecycles/{agent}/reject")
        await found.client.get("/api/v1/lifecycles", headers={"authorization": "x"})
        await found.client.post("/hooks/github")
        await found.client.get("/readyz")
        after = await numbers(found)
        assert after['loopwright_attempts_total{outcome="error"}'] >= 1
        assert after['loopwright_wait_seconds_count{kind="AwaitingHuman"}'] >= 1
        assert after['loopwright_wait_seconds_sum{kind="AwaitingHuman"}'] > 0
        assert after['loopwright_lifecycles_ended_total{state="rejected"}'] == 1
        assert after['loopwright_lifecycle_seconds_count{state="rejected"}'] == 1
        assert after['loopwright_lifecycle_seconds_sum{state="rejected"}'] > 0
        assert "loopwright_lifecycle_success_ratio" not in before
        assert after["loopwright_lifecycle_success_ratio"] == 0
        assert 'loopwright_lifecycles{state="needs-you"}' not in after
        assert after["lifecycle_restarts_count_total"] >= 1
        assert after['loopwright_http_refused_total{code="token"}'] == 1
        assert after['loopwright_hooks_received_total{provider="github",result="closed"}'] == 1
        assert after["loopwright_store_write_seconds_count"] == 1
        counted = await found.get("/statistics")
        assert counted["lifecycles"]["by_state"] == {"done": 1}
        assert counted["lifecycles"]["ended"] == {"rejected": 1}
        assert counted["instances"]["total_spawned"] >= 3


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb", "\u00e9", ""])
def test_a_label_may_hold_anything(value: str) -> None:
    page = MetricsText()
    page.gauges("x", "help", [({"label": value}, 1.5)])
    *_, sample = page.text().rstrip("\n").split("\n")
    assert sample.endswith('"} 1.5')
    inside = sample.removeprefix('x{label="').removesuffix('"} 1.5')
    assert inside.replace(r"\n", "\n").replace(r"\"", '"').replace("\\\\", "\\") == value


def test_buckets_hold_all_that_took_no_longer() -> None:
    metrics = Metrics()
    for seconds in (0.001, 0.2, 99.0):
        metrics.took("x", seconds)
    page = MetricsText()
    page.histogram("x", "help", metrics.snapshot().histograms["x"])
    found = parsed(page.text())
    assert found['x_bucket{le="0.005"}'] == 1
    assert found['x_bucket{le="0.25"}'] == 2
    assert found['x_bucket{le="60"}'] == 2
    assert found['x_bucket{le="+Inf"}'] == found["x_count"] == 3
    assert found["x_sum"] == pytest.approx(99.201)
