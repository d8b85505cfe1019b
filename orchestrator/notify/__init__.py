"""Tells people what needs them: found in committed facts, stored, then sent. Decides nothing."""
