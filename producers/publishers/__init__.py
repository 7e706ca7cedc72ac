"""Publishers, which send frames to Kafka or to a gateway."""
