"""Counting: the way from the log of reports to tallies, in which each report counts exactly once."""
