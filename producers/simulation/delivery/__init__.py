"""The delivery of simulated frames to Kafka, with the true counts."""
