"""The size of the largest record. It lies below the limit of many Kafka services, so every broker takes it."""

ENVELOPE = 64 << 10
"""The bytes of the batch, the key, and all fields except integers and values."""
RECORD = 8 << 20
"""The most bytes of a published record with its batch. A larger one is cut. Many Kafka services take no more."""
