"""Compiles what every runner renders, for those that are forked off after it."""

from __future__ import annotations

from templates.renderer import _built_in

NAMES = ("prompt.md.j2", "summary.md.j2")


def compile_templates() -> None:
    """Compile our own templates in this process."""
    for name in NAMES:
        _built_in().get_template(name)
