"""Who may start now: slots, budgets and the limits of agent programs.

Must not start anything itself.
"""
