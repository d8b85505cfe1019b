"""Every transcript must have named all orders it saw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lifecycle.machine import playbook

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _every_order_was_expected() -> Iterator[None]:
    playbook.OPEN.clear()
    yield
    for transcript in playbook.OPEN:
        transcript.settle()
