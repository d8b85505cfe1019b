"""One agent process, from its command line to its end.

Must not decide what follows from the end.
"""
