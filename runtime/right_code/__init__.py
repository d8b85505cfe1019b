"""Whether what is run in a folder is the code of that folder, and not that of another checkout.

Reads files and tells what it found. It must not decide what follows from that, nor change anything.
"""
