"""Spans and metrics of what a runner does, by OpenTelemetry. Must not hold up or change a loop."""
