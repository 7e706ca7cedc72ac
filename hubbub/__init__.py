"""The shared floor: the command, and where Kafka is."""
