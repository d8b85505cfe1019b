"""The pages that every check of looks, access and safety is run on. New pages are added here."""

from __future__ import annotations

PAGES = (
    "/",
    "/t/T03",
    "/t/T05",
    "/t/T10",
    "/t/T11",
    "/t/T03/attempts/1",
    "/history",
    "/history?q=carrier",
    "/history/audit",
    "/costs",
    "/new",
    "/accept",
    "/hooks",
    "/hooks/1",
    "/settings",
    "/review/T03",
    "/review/T03?view=split",
    "/review/T04",
    "/review/T05",
    "/review/T10",
    "/plans",
    "/plans/november",
    "/t/T03/summaries/1",
)
"""Of the night of the plan november."""
OPEN = ("/login",)
"""Pages that are seen before one is signed in."""
EVERY = (*OPEN, *PAGES)
HOSTILE = (
    "/",
    "/t/T01",
    "/t/T02",
    "/t/T03",
    "/t/T05",
    "/t/T01/attempts/1",
    "/history",
    "/history?q=script",
    "/history/audit",
    "/costs",
    "/hooks",
    "/hooks/1",
    "/review/T01",
    "/review/T02",
    "/plans",
    "/t/T01/summaries/2",
)
"""Of the repository in which everything is an attack."""
