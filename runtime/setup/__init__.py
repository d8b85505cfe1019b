"""Set-up: prepares a folder for the task's commands, and records what was made there.

Must not judge commits.
"""
