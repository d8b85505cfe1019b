"""Carries out the effects that the machine ordered, and reports the result of each.

Must not change a record; results go back to the owner as facts.
"""
