"""Control groups: what this kernel lets us enforce on a whole process tree, and the groups made.

Nouns: `Capabilities` say what can be enforced here and why the rest cannot, found out by trying; a
`Group` holds one agent with all it starts, in one folder per hierarchy of the kernel.

Flow: groups are created below our own only, named after their spawn, joined by the process itself
before it runs anything, and removed once they are empty.
"""
