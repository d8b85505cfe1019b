"""Several providers as one."""
