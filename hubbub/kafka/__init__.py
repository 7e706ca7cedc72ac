"""Kafka, as clients and the daemon use it."""

from hubbub.kafka.settings import Kafka

__all__ = ["Kafka"]
