"""A range of ports for each lifecycle."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from runtime.setup.port_ranges import FIRST, WIDTH, PortSlots

if TYPE_CHECKING:
    from pathlib import Path


def test_ranges_are_apart_stay_and_are_given_back(tmp_path: Path) -> None:
    slots = PortSlots(tmp_path / "ports.json")
    first, second = slots.port_of("a"), slots.port_of("b")
    assert abs(first - second) >= WIDTH
    assert (first - FIRST) % WIDTH == 0
    assert PortSlots(tmp_path / "ports.json").port_of("a") == first
    assert slots.env_of("b") == {"LOOPWRIGHT_PORT": str(second)}
    slots.give_back("a")
    slots.give_back("a")
    assert slots.port_of("c") != second


def test_a_range_in_which_somebody_listens_is_not_given(tmp_path: Path) -> None:
    free = PortSlots(tmp_path / "ports.json").port_of("a")
    (tmp_path / "ports.json").unlink()
    with socket.socket() as server:
        server.bind(("127.0.0.1", free + 3))
        server.listen()
        assert PortSlots(tmp_path / "ports.json").port_of("a") != free


def test_a_file_that_cannot_be_read_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text("[1")
    assert PortSlots(tmp_path / "ports.json").port_of("a") >= FIRST
