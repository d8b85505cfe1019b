"""What an agent is started as: which program, with which command line, in which sandbox.

Starts nothing, and knows no lifecycle.
"""
