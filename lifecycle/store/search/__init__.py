"""Search over what was asked, said, judged and decided: an index in a file of its own.

The index is made of the records and can be made again at any time. Must not be needed by a loop,
and must not slow one down: nothing of it is written when a decision is.
"""
