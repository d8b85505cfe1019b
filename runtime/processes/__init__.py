"""Processes: starting, limits, termination, and the proof that nothing is left alive.

Must not know of lifecycles.
"""
