"""From the log to tallies: what becomes of each record, exactly once."""
