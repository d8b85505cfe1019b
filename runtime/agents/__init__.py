"""Agents: adapters for the programs of others, and one that ships with Loopwright.

`adapter` is the form of an adapter, `catalogue` lists those there are, one module each holds a
program's data and parser; `events` and `outcome` are what all parsers return. `scripted` validates
and runs a script, faults included; `steps` holds its verbs, and `mailbox_faults` the ways to write
a breakpoint. It must not start processes.
"""
