"""What the next attempt is told: the facts, cut to size, and the files that carry them.

Must not decide anything and must not start processes.
"""

from lifecycle.context.snapshot import ContextBuilder, ContextSnapshot

__all__ = ["ContextBuilder", "ContextSnapshot"]
