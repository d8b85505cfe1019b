"""What `init` proposes for a repository: how a fresh checkout is set up, and what judges it.

Reads files of the commit and looks programs up; starts none of them and writes nothing.
"""
