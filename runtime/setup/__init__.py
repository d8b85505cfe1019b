"""Set-up: what makes a folder able to run the task's commands, and what was made there."""
