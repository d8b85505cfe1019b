"""Finds what would prevent a run, before it starts. Changes nothing."""
