"""The daemon: counts reports from Kafka exactly and publishes what they say."""
