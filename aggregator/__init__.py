"""The daemon, which counts reports from Kafka exactly and publishes estimates."""
