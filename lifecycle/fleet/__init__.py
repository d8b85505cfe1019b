"""Agents as instances: spawned without a loop, or a view of the attempts of loops."""
