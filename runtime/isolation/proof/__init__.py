"""Attacks on our own sandbox, to prove what it holds."""
