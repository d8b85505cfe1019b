"""`loopwright completion SHELL`: prints the completion script for a shell."""

from __future__ import annotations

import sys

from orchestrator.cli.options import Parser

SHELLS = ("bash", "zsh", "fish")


def parser(name: str) -> Parser:
    """Return the options."""
    made = Parser(
        name,
        "Print the completion script for a shell.",
        example=(
            f'eval "$(loopwright {name} bash)"        # in ~/.bashrc\n'
            f'eval "$(loopwright {name} zsh)"         # in ~/.zshrc, after compinit\n'
            f"loopwright {name} fish > ~/.config/fish/completions/loopwright.fish"
        ),
    )
    made.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")
    return made


def run(name: str, args: list[str]) -> int:
    """Print."""
    options = parser(name).parse_args(args)
    from orchestrator.completing import script  # noqa: PLC0415  # it looks at every command

    sys.stdout.write(script(options.shell))
    return 0
