"""Runners that nobody watches: started in the background, known to be ready, and ended."""
