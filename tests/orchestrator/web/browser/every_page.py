"""The pages that every check of looks, access and safety is run on. New pages are added here."""

from __future__ import annotations

PAGES = ("/", "/history", "/history?q=carrier", "/history/audit", "/costs")
"""Of the night of the plan november."""
OPEN = ("/login",)
"""Pages that are seen before one is signed in."""
EVERY = (*OPEN, *PAGES)
HOSTILE = ("/", "/history", "/history?q=script", "/history/audit", "/costs")
"""Of the repository in which everything is an attack."""
