"""Tasks from where people keep them: read as a plan, and ticked there once they are accepted.

Owns the forms of task lists. Must not run a lifecycle, nor decide what becomes of one.
"""
