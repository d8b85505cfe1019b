"""Sends spans and metrics by OTLP over HTTP. The one importer of OpenTelemetry.

Where to, and with which headers, limits and intervals, the SDK reads from the `OTEL_*` variables.
What cannot be sent is dropped by it; why is passed on.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, cast

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from orchestrator.telemetry.spans import INSTRUMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.sdk.trace.id_generator import IdGenerator

    from orchestrator.telemetry.spans import Attributes, Told

SCOPE = "loopwright"
CLOSING_S = 5.0
"""Seconds for a last sending; a collector that does not answer does not hold up the end."""
PROBING_S = 2.0
LOGGER = "opentelemetry"
_NANOSECONDS = 1_000_000_000


class _GivenIds:
    """Gives out the ids of the span that is made next; an `IdGenerator`."""

    trace = span = 1

    def generate_trace_id(self) -> int:
        return self.trace

    def generate_span_id(self) -> int:
        return self.span

    def is_trace_id_random(self) -> bool:
        return False


class _Complaints(logging.Handler):
    """Takes what the SDK logs, so that none of it gets onto a terminal."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self.say = complain

    def emit(self, record: logging.LogRecord) -> None:
        self.say(record.getMessage())


class OtlpSender:
    """Sends in the background, from threads of the SDK; `close` sends what is left."""

    def __init__(
        self,
        resource: Mapping[str, str],
        complain: Callable[[str], None],
        *,
        traces: bool = True,
        metrics: bool = True,
    ) -> None:
        """`complain` is called, in any thread, with why something was not sent."""
        self._complaints = _Complaints(complain)
        logger = logging.getLogger(LOGGER)
        logger.addHandler(self._complaints)
        logger.propagate = False
        # What the user's variables say of the resource stands before what we say.
        whole = Resource.create(dict(resource)).merge(OTELResourceDetector().detect())
        self._ids = _GivenIds()
        self._tracers = TracerProvider(
            resource=whole, id_generator=cast("IdGenerator", self._ids), shutdown_on_exit=False
        )
        if traces:
            self._tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        readers = [PeriodicExportingMetricReader(OTLPMetricExporter())] if metrics else []
        self._meters = MeterProvider(readers, whole, shutdown_on_exit=False)
        self._tracer, meter = self._tracers.get_tracer(SCOPE), self._meters.get_meter(SCOPE)
        self._instruments: dict[str, Callable[[float, Attributes], None]] = {}
        for name, (kind, unit, words) in INSTRUMENTS.items():
            if kind == "counter":
                self._instruments[name] = meter.create_counter(name, unit, words).add
            else:
                self._instruments[name] = meter.create_histogram(name, unit, words).record

    def send(self, told: Told) -> None:
        """Take spans and measurements; never waits."""
        for each in told.spans:
            self._ids.trace, self._ids.span = each.trace, each.id
            parent = None
            if each.parent is not None:
                # As it is decided for the whole trace, whose first span comes last.
                asked = self._tracers.sampler.should_sample(None, each.trace, each.name)
                taken = asked.decision is Decision.RECORD_AND_SAMPLE
                flags = TraceFlags(TraceFlags.SAMPLED if taken else TraceFlags.DEFAULT)
                whose = SpanContext(each.trace, each.parent, is_remote=False, trace_flags=flags)
                parent = set_span_in_context(NonRecordingSpan(whose))
            span = self._tracer.start_span(
                each.name,
                parent,
                attributes=each.attributes,
                start_time=int(each.began * _NANOSECONDS),
            )
            if each.failed:
                span.set_attribute("error.type", each.failed)
                span.set_status(Status(StatusCode.ERROR, each.failed))
            span.end(int(max(each.ended, each.began) * _NANOSECONDS))
        for name, value, attributes in told.measurements:
            self._instruments[name](value, attributes)

    def close(self) -> bool:
        """Send what is left; says whether that was done in time."""
        over = threading.Event()

        def end() -> None:
            parts: tuple[Callable[[], None], ...] = (self._tracers.shutdown, self._meters.shutdown)
            for shut_down in parts:
                try:
                    shut_down()
                except Exception as problem:  # noqa: BLE001  # nobody waits for the code of others
                    self._complaints.say(f"{type(problem).__name__}: {problem}")
            over.set()

        threading.Thread(target=end, name="last telemetry", daemon=True).start()
        in_time = over.wait(CLOSING_S)
        if in_time:  # else what is still said later would get onto the terminal
            logging.getLogger(LOGGER).removeHandler(self._complaints)
        return in_time


def probe() -> str:
    """Send no spans at all, and say why the collector does not take them; empty if it does."""
    said: list[str] = []
    complaints, logger = _Complaints(said.append), logging.getLogger(LOGGER)
    logger.addHandler(complaints)
    exporter = OTLPSpanExporter(timeout=PROBING_S)
    shut_down: Callable[[], None] = exporter.shutdown
    try:
        if exporter.export(()) is SpanExportResult.SUCCESS:
            return ""
        return said[-1].partition("\n")[0] if said else "it says no"
    finally:
        shut_down()
        logger.removeHandler(complaints)
