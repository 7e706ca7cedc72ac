"""Simulated clients: their answers, the way of their frames to Kafka, and the true counts."""
