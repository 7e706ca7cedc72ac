"""Clients: how perturbed reports get into Kafka."""
