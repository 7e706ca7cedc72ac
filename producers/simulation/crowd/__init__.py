"""The crowd: the values of simulated clients, and the changes over time."""
