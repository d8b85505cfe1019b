"""Loops in one process: started, supervised, ended.

Must not decide for a lifecycle.
"""
