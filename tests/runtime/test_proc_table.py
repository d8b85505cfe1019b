"""What the kernel and ps say about processes is read right."""

from __future__ import annotations

import os

from runtime import proc_table


def test_a_name_with_brackets_and_spaces_is_read_right() -> None:
    text = b"7 (a) R (b) T 3 5 6 0 -1 0 0 0 0 0 10 20 30 40 20 0 1 0 900 0 2"
    memory = 2 * os.sysconf("SC_PAGE_SIZE")
    assert proc_table.parse_stat(7, text) == (7, 3, 5, 6, 900, 100, False, True, False, memory)


def test_a_dead_first_thread_is_not_a_dead_process() -> None:
    text = b"7 (a) Z 3 5 6 0 -1 0 0 0 0 0 10 20 30 40 20 0 2 0 900 0 0"
    assert not proc_table.parse_stat(7, text).dead
    assert proc_table.parse_stat(7, text.replace(b" 2 0 900", b" 1 0 900")).dead


def test_the_output_of_ps_is_read_where_there_is_no_proc() -> None:
    text = (
        "    1     0     1 Ss      0:02.50  12 Mon Nov 16 07:00:00 2026\n"
        "  812     1   812 Z    1-00:00:01   0 Tue Nov 17 08:00:00 2026\n"
        "garbage\n"
    )
    rows = proc_table.parse_ps(text, lambda _: 5)
    assert rows == [
        (1, 0, 1, 1, 5, 250, False, False, False, 12 << 10),
        (812, 1, 812, 812, 5, 8_640_100, True, False, False, 0),
    ]
