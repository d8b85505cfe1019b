"""Control groups: what this kernel lets us enforce on a whole process tree, and the groups made.

Nouns: `Capabilities` tell what can be enforced here and why the rest cannot, found out by doing; a
`Group` holds one agent with all it starts, in one folder per hierarchy of the kernel.

Flow: groups are made below our own only, named after the spawn they hold, joined by the process
itself before it runs anything, and gone when their processes are.
"""
