"""What commands read the work of a lifecycle with, wherever it was made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from orchestrator.review.work_diff import WorkReader
from orchestrator.runner.providers import bring_of
from runtime.branches import BranchManager

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.settings import Settings
    from lifecycle.store.sqlite.store import SqliteStore
    from runtime.masking.masker import Masker


def work_reader(repo: Path, store: SqliteStore, settings: Settings, masker: Masker) -> WorkReader:
    """Return a reader that takes secrets out, and fetches what workers pushed."""
    return WorkReader(
        BranchManager(repo),
        store,
        lambda: settings,
        cleaned=masker.mask_bytes,
        bring=bring_of(repo, settings, masker, os.environ),
    )
