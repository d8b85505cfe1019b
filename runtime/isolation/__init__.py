"""Boxes around agent processes: what one sees, writes and reaches, and the proof that it holds."""
