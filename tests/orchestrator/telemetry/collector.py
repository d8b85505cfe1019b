"""A collector of OpenTelemetry for tests: takes OTLP over HTTP and decodes it."""

from __future__ import annotations

import gzip
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True)
class Sent:
    """A span as it arrived."""

    trace: str
    id: str
    parent: str
    name: str
    began: float
    ended: float
    failed: bool
    attributes: dict[str, Any]


@dataclass
class Collector:
    """What arrived, in order."""

    url: str = ""
    status: int = 200
    spans: list[Sent] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)
    metrics: dict[str, list[tuple[dict[str, Any], float]]] = field(default_factory=dict)
    """Of each metric its points: attributes, and sum."""

    def named(self, name: str) -> list[Sent]:
        """Return the spans of this name, oldest first."""
        return sorted((each for each in self.spans if each.name == name), key=lambda at: at.began)

    def take(self, path: str, body: bytes) -> None:
        """Decode a request."""
        if path == "/v1/traces":
            for batch in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append(_plain(batch.resource.attributes))
                self.spans += [_sent(span) for scope in batch.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for whole in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in (each for scope in whole.scope_metrics for each in scope.metrics):
                    self.metrics[metric.name] = [_point(each) for each in _points(metric)]


@contextmanager
def collector() -> Iterator[Collector]:
    """Serve on any free port."""
    made = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if made.status == 200:
                made.take(self.path, body)
            self.send_response(made.status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


def _sent(span: Any) -> Sent:
    return Sent(
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.name,
        span.start_time_unix_nano / 1e9,
        span.end_time_unix_nano / 1e9,
        span.status.code == span.status.STATUS_CODE_ERROR,
        _plain(span.attributes),
    )


def _points(metric: Any) -> Iterable[Any]:
    return getattr(metric, metric.WhichOneof("data")).data_points  # type: ignore[no-any-return]  # protobuf


def _point(point: Any) -> tuple[dict[str, Any], float]:
    total = point.sum if hasattr(point, "bucket_counts") else point.as_double or point.as_int
    return _plain(point.attributes), total


def _plain(attributes: Iterable[Any]) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
