"""Numerical kernels: transforms, counts of bits, projections, tails and laws. Nothing here concerns privacy."""
