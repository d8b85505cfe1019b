"""Whether commands in a folder use the code of that folder, not the code of another checkout.

Reads files and reports what it found. It must not decide what follows from that, nor change
anything.
"""
