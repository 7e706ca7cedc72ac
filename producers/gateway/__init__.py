"""The gateway, which accepts reports over HTTP from devices that cannot use Kafka."""
