"""What all tests of remotes start from: a repository, and another one for it to reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.runtime.remote.ends import Far, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.runtime.remote.ends import Web


@pytest.fixture
def far(git_repo: Path, tmp_path: Path, git_cli: Callable[..., str]) -> Far:
    there = tmp_path / "there.git"
    git_cli(tmp_path, "init", "-q", "--bare", str(there))
    return Far(git_repo, there, git_cli)


@pytest.fixture
def web(far: Far) -> Iterator[Web]:
    with serving(far.there.parent) as web:
        yield web
