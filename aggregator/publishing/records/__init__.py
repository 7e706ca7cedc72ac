"""The records of windows, as they are written and read."""
