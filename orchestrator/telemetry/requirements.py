"""What telemetry needs to be sent from here, and what of it is missing."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING

from orchestrator.errors import ConfigError
from orchestrator.extras import how_to_install

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lifecycle.settings import Settings

PROTOCOL = "http/protobuf"
_PACKAGES = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
_PROTOCOLS = (
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
)
_NONE = "none"


def require_telemetry(settings: Settings, environ: Mapping[str, str]) -> None:
    """Refuse to start where telemetry is asked for and cannot be sent; ConfigError says why."""
    if problem := missing(settings, environ):
        raise ConfigError(problem)


def missing(settings: Settings, environ: Mapping[str, str]) -> str:
    """Say what is missing and what to do; empty where nothing is."""
    if not settings.telemetry:
        return ""
    if not _installed():
        return (
            "telemetry = true needs the OpenTelemetry SDK, which is not installed: "
            f"{how_to_install('otel')}"
        )
    for name in _PROTOCOLS:
        if environ.get(name, PROTOCOL) not in {"", PROTOCOL}:
            return (
                f"{name} asks for {environ[name]}, but telemetry is sent by {PROTOCOL} alone: "
                f"unset it, and give the collector's address for that (port 4318 as a rule)"
            )
    return ""


def wanted(settings: Settings, environ: Mapping[str, str]) -> tuple[bool, bool]:
    """Tell whether spans and whether metrics are to be sent."""
    if not settings.telemetry or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False, False
    traces, metrics = (environ.get(f"OTEL_{kind}_EXPORTER") for kind in ("TRACES", "METRICS"))
    return traces != _NONE, metrics != _NONE


def collector(environ: Mapping[str, str]) -> str:
    """Return the address that spans are sent to, as it may be shown."""
    general = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "http://localhost:4318"
    whole = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or f"{general.rstrip('/')}/v1/traces"
    return re.sub(r"(?<=//)[^/?#]*@|[?#].*", "", whole)


def refusal() -> str:
    """Ask the collector to take no spans at all, and say why it does not; empty if it does."""
    from orchestrator.telemetry.otlp import probe  # noqa: PLC0415  # an extra, and heavy

    return probe()


def _installed() -> bool:
    try:
        return all(map(find_spec, _PACKAGES))
    except ModuleNotFoundError:  # a package above it is not there
        return False
