"""Several repositories behind one address: each under its own name, and one board over all.

Must not decide anything about a lifecycle, and must not know how a repository is opened.
"""
