"""Review of finished work: its diff, its evidence, what waits for a decision, and in which order.

Reads records and commits, and keeps what a person marked as seen. It decides nothing about a
lifecycle: that is the machine's, asked through `orchestrator.control`.
"""
