"""The topics in Kafka: their settings, sizes and ids, and the command that creates them."""
