"""What a command does to a lifecycle, whether its runner is alive or not."""
