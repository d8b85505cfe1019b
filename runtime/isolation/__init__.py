"""Sandboxes for agent processes: what one can see, write and reach, and the proof that it holds."""
