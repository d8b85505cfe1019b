"""Spans and metrics arrive at a collector as the page says, and one that fails disturbs nothing."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from orchestrator.telemetry import otlp, requirements
from tests.lifecycle.attempt.reviewing import APPROVES, REJECTS, reviewer
from tests.orchestrator.loopkit import ASK, DONE, SETTINGS, World
from tests.orchestrator.telemetry.collector import collector
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.orchestrator.telemetry.collector import Collector

ROOT = Path(__file__).resolve().parents[3]
TRANSCRIPT = ROOT / "tests" / "runtime" / "agents" / "transcripts" / "claude" / "ok.stdout"
ON = f"{SETTINGS}telemetry = true\n"


@pytest.fixture
def receiving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collector() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        yield made


def noting(world: World) -> dict[str, list[str]]:
    """Return a step in which an agent writes down the span that it was told of."""
    python = f'echo "$TRACEPARENT" >>{world.folder / "traceparents"}'
    return {"run": ["sh", "-c", python]}


def test_a_lifecycle_is_one_trace_of_its_attempts_gates_and_waits(
    world: World, receiving: Collector
) -> None:
    world.settings(ON)
    script = {"attempts": {
        "1": [noting(world), DONE],
        "default": [
            noting(world), {"write": {"path": "made.txt", "text": "x"}}, {"commit": "Make"}, DONE,
        ],
    }}  # fmt: skip
    command = ("--command", world.script("agent", script), "--verify", "test -e made.txt")
    world.call("run", "Work", *command)
    [root] = receiving.named("lifecycle T001")
    first, second = receiving.named("invoke_agent agent-T001")
    red, green = receiving.named("verify")
    assert {each.trace for each in receiving.spans} == {root.trace}
    assert root.parent == ""
    assert not root.failed
    assert root.attributes["loopwright.state"] == "done"
    assert root.attributes["loopwright.attempts"] == 2
    assert [first.parent, second.parent] == [root.id, root.id]
    assert [red.parent, green.parent] == [first.id, second.id]
    assert (first.failed, second.failed, red.failed, green.failed) == (True, False, True, False)
    assert first.attributes["error.type"] == first.attributes["loopwright.attempt.outcome"]
    assert [each.attributes["loopwright.attempt"] for each in (first, second)] == [1, 2]
    assert green.attributes["loopwright.gate.command"] == "test -e made.txt"
    waits = [each for each in receiving.spans if each.name.startswith("wait for ")]
    assert {each.name for each in waits} == {"wait for slot or dependency", "wait for next attempt"}
    for inner in (first, second, red, green, *waits):
        assert root.began <= inner.began <= inner.ended <= root.ended
    told = (world.folder / "traceparents").read_text().split()
    assert told == [f"00-{each.trace}-{each.id}-01" for each in (first, second)]


def test_a_reviewer_is_a_span_below_the_attempt_and_its_verdict_ends_that(
    world: World, receiving: Collector
) -> None:
    first = f"seen = pathlib.Path({str(world.folder / 'seen')!r})\nif not seen.exists():\n"
    body = f"{first}    seen.touch()\n    {REJECTS}\nelse:\n    {APPROVES}\n"
    world.settings(f"{ON}review_by = {json.dumps(reviewer(world.folder, body))}\n")
    steps = [{"append": {"path": "x.txt", "text": "x\n"}}, {"commit": "x"}, DONE]
    world.call("run", "Work", "--command", world.script("agent", steps), "--verify", "true")
    sent_back, approved = receiving.named("invoke_agent agent-T001")
    no, yes = receiving.named("invoke_agent reviewer of agent-T001")
    assert [no.parent, yes.parent] == [sent_back.id, approved.id]
    assert [each.attributes["loopwright.review.approves"] for each in (no, yes)] == [False, True]
    assert sent_back.attributes["loopwright.attempt.outcome"] == "review_findings"
    assert (sent_back.failed, approved.failed) == (True, False)
    assert no.began < no.ended <= sent_back.ended
    assert len(receiving.named("lifecycle T001")) == 1


def test_a_sampler_takes_whole_lifecycles(
    world: World, receiving: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    world.settings(ON)
    world.call("run", "Work", "--command", world.script("agent", [DONE]), "--verify", "true")
    assert receiving.spans == []
    assert receiving.metrics["loopwright.lifecycle.ends"] == [({"loopwright.state": "done"}, 1)]


def test_metrics_and_resource_say_whose_they_are(world: World, receiving: Collector) -> None:
    world.settings(ON)
    world.call("run", "Work", "--command", world.script("agent", [DONE]), "--verify", "true")
    [(whose, seconds)] = receiving.metrics["gen_ai.client.operation.duration"]
    assert whose == {"gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "command"}
    assert 0 < seconds < PATIENCE
    assert receiving.metrics["loopwright.lifecycle.ends"] == [({"loopwright.state": "done"}, 1)]
    assert [each for each, _ in receiving.metrics["loopwright.gate.duration"]] == [
        {"loopwright.gate.ok": True}
    ]
    for resource in receiving.resources:
        assert resource["service.name"] == "loopwright"
        assert resource["vcs.repository.name"] == world.repo.name
        assert resource["deployment.environment.name"] == "test"


def test_ids_hold_over_a_restart_and_a_wait_began_when_the_earlier_runner_saw_it(
    world: World, receiving: Collector
) -> None:
    world.settings(ON)
    script = {"attempts": {"1": [ASK], "default": [DONE]}}
    command = ("run", "Work", "--command", world.script("agent", script), "--no-stay")
    world.call(*command, code=3)
    before = {each.trace for each in receiving.spans}
    assert receiving.named("lifecycle T001") == []
    world.call("answer", "T001", "Blue")
    world.call(*command)
    [root], [wait] = receiving.named("lifecycle T001"), receiving.named("wait for person")
    asked, done = receiving.named("invoke_agent agent-T001")
    assert {root.trace} == before
    assert asked.parent == wait.parent == done.parent == root.id
    assert asked.ended <= wait.began <= wait.ended <= done.began


def test_what_a_program_used_is_told_in_the_words_of_the_conventions(
    world: World, receiving: Collector, programs: Path
) -> None:
    done = world.folder / "done.json"
    done.write_text(json.dumps([DONE]))
    claude = programs / "claude"
    claude.write_text(f"#!/bin/sh\ncat {TRANSCRIPT}\nexec loopwright-agent {done}\n")
    claude.chmod(0o755)
    world.settings(ON)
    world.call("run", "Work", "--agent", "claude:opus")
    [span] = receiving.named("invoke_agent agent-T001")
    said, used = span.attributes, receiving.metrics["gen_ai.client.token.usage"]
    assert said["gen_ai.provider.name"] == "anthropic"
    assert said["gen_ai.request.model"] == "opus"
    assert said["gen_ai.response.model"].startswith("claude-")
    assert said["gen_ai.conversation.id"]
    by_kind = {each["gen_ai.token.type"]: tokens for each, tokens in used}
    assert by_kind == {"input": 2400 + 2000, "output": 68}, "what came from a cache is input, too"
    assert said["gen_ai.usage.input_tokens"] == by_kind["input"]
    assert said["gen_ai.usage.output_tokens"] == by_kind["output"]
    assert said["gen_ai.usage.cache_read.input_tokens"] == 2000
    [(_, cost)] = receiving.metrics["loopwright.cost"]
    assert cost == said["loopwright.cost_usd"] == pytest.approx(0.01136)
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    known |= {value for name, value in vars(gen_ai_metrics).items() if name.startswith("GEN_AI_")}
    names = {name for each in receiving.spans for name in each.attributes}
    names |= {name for points in receiving.metrics.values() for each, _ in points for name in each}
    names |= {*receiving.metrics}
    assert {name for name in names if name.startswith("gen_ai.")} <= known


@pytest.mark.parametrize("wrong", ["refuses", "answers with an error", "hangs"])
def test_a_collector_that_fails_disturbs_nothing(
    world: World, receiving: Collector, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setattr(otlp, "CLOSING_S", 0.5)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    world.settings(ON)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        if wrong == "answers with an error":
            receiving.status = 400
        elif wrong == "hangs":
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{host}:{port}")
        else:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
        began = time.monotonic()
        done = world.call("run", "Work", "--command", world.script("agent", [DONE]))
        assert time.monotonic() - began < PATIENCE
    assert " telemetry: " in done.stderr
    assert "Traceback" not in done.stderr
    logged = (world.repo / ".loopwright" / "runner.log").read_text()
    events = [json.loads(line)["event"] for line in logged.splitlines()]
    assert "telemetry_failed" in events
    assert "observer_failed" not in events


def test_a_collector_that_is_away_is_told_once_and_its_secrets_never(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "CLOSING_S", 0.5)
    secrets = ("long-word-4711", "query-word-4711", "header-word-4711")
    address = f"http://me:{secrets[0]}@127.0.0.1:1/x?key={secrets[1]}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    # With a colon the SDK refuses it, and repeats all of it.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization: Bearer {secrets[2]}")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    world.settings(ON)
    waits = {"sleep": 4}
    done = world.call("run", "Work", "--command", world.script("agent", [waits, DONE]))
    log = (world.repo / ".loopwright" / "runner.log").read_text()
    events = [json.loads(line) for line in log.splitlines()]
    told = [each["reason"] for each in events if each["event"] == "telemetry_failed"]
    assert len([each for each in told if "metrics batch, retrying" in each]) == 1
    shown = world.call("doctor", code=None)
    for secret in secrets:
        assert secret not in done.stderr + log + shown.stdout + shown.stderr


def test_nothing_is_loaded_or_sent_unasked(world: World, receiving: Collector) -> None:
    agent = world.script("agent", [noting(world), DONE])
    loaded = (
        "import sys; from orchestrator.cli.main import main; code = main(sys.argv[1:]); "
        "sys.exit(code or any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    command = (sys.executable, "-P", "-c", loaded, "run", "Work", "--command", agent)
    subprocess.run(command, cwd=world.repo, check=True, capture_output=True, timeout=PATIENCE)
    assert (receiving.spans, receiving.metrics) == ([], {})
    assert (world.folder / "traceparents").read_text() == "\n"


def test_a_missing_extra_and_another_protocol_are_named_before_anything_begins(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.settings(ON)
    agent = world.script("agent", [DONE])
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    refused = world.call("run", "Work", "--command", agent, code=2)
    assert "OTEL_EXPORTER_OTLP_PROTOCOL asks for grpc" in refused.stderr
    monkeypatch.setattr(requirements, "_PACKAGES", ("opentelemetry_not_there.sdk",))
    refused = world.call("run", "Work", "--command", agent, code=2)
    assert "uv tool install 'loopwright[otel]'" in refused.stderr
    assert world.row() == {}


def test_doctor_asks_the_collector(
    world: World, receiving: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.settings(ON)
    found = {each["what"]: each for each in world.json("doctor", code=None)["checks"]}
    assert found["telemetry"]["level"] == "ok"
    assert receiving.url in found["telemetry"]["found"]
    receiving.status = 404
    found = {each["what"]: each for each in world.json("doctor", code=None)["checks"]}
    assert found["telemetry"]["level"] == "warn"
    assert "404" in found["telemetry"]["found"]
    monkeypatch.setattr(requirements, "_PACKAGES", ("opentelemetry_not_there.sdk",))
    found = {each["what"]: each for each in world.json("doctor", code=None)["checks"]}
    assert found["telemetry"]["level"] == "bad"
    assert "loopwright[otel]" in found["telemetry"]["mend"]


def test_what_cannot_be_sent_from_here_holds_up_no_decision(
    world: World, receiving: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.settings(ON)
    steps = [{"append": {"path": "x.txt", "text": "x\n"}}, {"commit": "x"}, DONE]
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "0")
    done = world.call("run", "Work", "--command", world.script("agent", steps))
    assert "telemetry: max_queue_size must be a positive integer" in done.stderr
    assert "nothing is sent: correct the OTEL_* variable" in done.stderr
    monkeypatch.setattr(requirements, "_PACKAGES", ("opentelemetry_not_there.sdk",))
    world.call("accept", "T001", "--no-verify")
    assert "loopwright[otel]" in (world.repo / ".loopwright" / "runner.log").read_text()
    assert receiving.spans == []
