"""The trace of a lifecycle and the spans in it: ids that are the same after each restart. Pure.

Each id is a hash of what a record keeps, so whoever has the record, on whatever machine, names the
same trace; nothing is remembered for it. The form is that of W3C Trace Context.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from lifecycle.record import mark_of

if TYPE_CHECKING:
    from lifecycle.record import AgentLifecycle

TRACEPARENT = "TRACEPARENT"
"""The variable by which a process learns of the span that it belongs to."""
_SAMPLED = "01"


def trace_id(record: AgentLifecycle) -> int:
    """Return the id of a lifecycle's trace."""
    return _hash(16, mark_of(record.agent_id, record.birth), repr(record.created_at))


def span_id(record: AgentLifecycle, *names: str) -> int:
    """Return the id of a span in it; without a name that of the whole lifecycle."""
    return _hash(8, mark_of(record.agent_id, record.birth), repr(record.created_at), *names)


def attempt_span(record: AgentLifecycle, spawn_id: str) -> int:
    """Return the id of the span that one process of an attempt is."""
    return span_id(record, "attempt", spawn_id)


def traceparent(record: AgentLifecycle, spawn_id: str) -> str:
    """Return what tells a process of an attempt which span it belongs to."""
    return f"00-{trace_id(record):032x}-{attempt_span(record, spawn_id):016x}-{_SAMPLED}"


def _hash(size: int, *parts: str) -> int:
    digest = sha256("\0".join(parts).encode()).digest()[:size]
    return int.from_bytes(digest) or 1  # 0 is no id
