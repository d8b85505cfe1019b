"""Everything that runs or is changed on this machine: processes, git, branches, workspaces.

Nouns: a `TerminalManager` starts `AgentProcess`es and accounts for all that they start; a
`CommandRunner` runs one shell command in the same way; a `WorkspaceManager` keeps one worktree and
branch per agent; a `BranchManager` merges; `Git` is the one door to git.

It must not know why a process runs or a branch is merged: facts are returned as plain values.
"""
