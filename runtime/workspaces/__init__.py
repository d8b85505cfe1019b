"""Workspaces of agents and judging checkouts: where they are, what is in them, saving it.

Must not lose work together with its folder.
"""
