"""Who is alive, why, how healthy, and within which limits."""
