"""The forms of what is stored, as rows: built and read here, written elsewhere."""
