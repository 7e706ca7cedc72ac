"""The gateway: reports over HTTP, for devices that do not speak Kafka and must not log in there."""
