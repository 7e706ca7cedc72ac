"""Tallies and snapshots, which are integers that add up, and their bytes."""
