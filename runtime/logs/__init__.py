"""Log files of agents, and the pump that redacts what is written to them."""
