"""Simulated crowds: what they answer, how it gets into Kafka, and the truth about it."""
