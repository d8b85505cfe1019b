"""The one task that moves a lifecycle: takes a fact, commits what follows, then has it done.

Must not carry out an effect before its commit.
"""
