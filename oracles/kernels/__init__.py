"""Numbers only: transforms, counts of bits, projections, tails and laws; no privacy."""
