"""What an instance runs as: a program, a coroutine in this process, or a thread."""
