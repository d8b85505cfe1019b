"""One module per agent program: its command line and its output format."""
