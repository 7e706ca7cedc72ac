"""Frequency oracles: ways to perturb one answer."""
