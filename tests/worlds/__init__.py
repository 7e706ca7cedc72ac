"""Worlds: the real code of workers on a simulated Kafka, with faults that a seed repeats exactly."""
