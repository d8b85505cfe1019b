"""The conformance kit: what an agent program must do to be run in a loop, tried on the real one."""
