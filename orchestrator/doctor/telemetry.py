"""What `doctor` finds out about telemetry; nothing where it is not asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.config.known_secrets import masker_of
from orchestrator.doctor.machine import BAD, OK, WARN, Diagnosis
from orchestrator.telemetry.requirements import collector, missing, refusal, wanted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lifecycle.settings import Settings

_FIX = "check OTEL_EXPORTER_OTLP_ENDPOINT and that the collector runs; loops go on without it"


def telemetry(settings: Settings, environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Diagnose whether telemetry can be sent: a collector is asked to take nothing."""
    if problem := missing(settings, environ):
        what, _, mend = problem.rpartition(": ")
        yield Diagnosis(BAD, "telemetry", what, mend)
        return
    if not any(wanted(settings, environ)):
        return
    where = f"the collector at {collector(environ)}"
    if problem := refusal():
        why = masker_of(environ).mask(problem)
        yield Diagnosis(WARN, "telemetry", f"{where} takes no spans: {why}", _FIX)
    else:
        yield Diagnosis(OK, "telemetry", f"{where} takes spans")
