"""Everything at once on one machine."""
