"""One machine's part of lifecycles that another process decides.

Nouns: an *assignment* is one visit of a lifecycle to a worker, from the order to prepare a
workspace to the next rest; *news* is what was decided since the order before. Knows no engine: who
decides, and how orders and facts travel, is its caller's. Must not decide or commit anything.
"""
