"""Keeps records, journal, ledgers and everything else of the loops, in SQLite.

The only room that may import sqlite3; must not know what the facts mean.
"""
