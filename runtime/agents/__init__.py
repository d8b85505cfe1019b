"""Agents that ship with Loopwright: the scripted one plays a script, faults included.

A script names steps per attempt; `scripted` checks and plays them, `steps` holds the verbs, and
`mailfaults` the ways to write a breakpoint.
"""
