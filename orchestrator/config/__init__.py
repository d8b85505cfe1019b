"""Settings and plans: where each value comes from, and what is wrong with it."""
