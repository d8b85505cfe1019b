"""Redacts secrets from everything that is kept or shown."""
