"""The store on SQLite: a file with one writing thread and readers beside it, or memory.

Must not decide anything; a commit is written whole or not at all.
"""
