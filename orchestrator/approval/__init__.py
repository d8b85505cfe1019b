"""An agent cannot loosen its own limits: which settings a person approved, and which wait.

Owns the comparison of files with what was approved, where a change came from, and the documents of
both in the store. Must not change a file, and must not decide what a setting means.
"""
