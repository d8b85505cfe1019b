"""Parses what agent programs print: lines, errors, reset times, totals.

Must not start programs.
"""
