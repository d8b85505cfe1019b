"""All lifecycles of one repository in one process: start, recovery, requests, retention.

Must not decide what follows from a fact; that is the machine's.
"""
