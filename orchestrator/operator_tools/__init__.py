"""The tools of a person for a program that works for that person: what `mcp --operator` offers."""
