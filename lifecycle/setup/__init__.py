"""Setting up: an agent's workspace and its judging checkout are made able to run its commands."""
