"""What changes while one looks: streams, counters, metrics."""
