"""The topics in Kafka: the names, their settings, what is written to them and under which keys."""
