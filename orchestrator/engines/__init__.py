"""Engines over many machines, each in a room of its own; `lifecycle.engine` is for one."""
