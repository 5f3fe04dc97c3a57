"""offsetbook: walk Kafka consumer groups from a question to a verified answer."""
