"""Agents: adapters for the programs of others, and one that ships with Loopwright.

`adapter` is the form of an adapter, `catalogue` lists those there are, one module each holds a
program's data and parser; `events` and `outcome` are what all parsers give. `scripted` checks and
plays a script, faults included; `steps` holds its verbs, and `mailfaults` the ways to write a
breakpoint.
"""
