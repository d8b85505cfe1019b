"""Git itself: commands that no repository can subvert, and the parsing of their output.

Must not trust configuration that an agent may have written.
"""
