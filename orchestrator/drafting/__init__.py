"""Plans that an agent drafts: what it is told, and whether its draft can be run.

Starts nothing and writes nothing. What a person says of a draft is asked for in `cli`.
"""
