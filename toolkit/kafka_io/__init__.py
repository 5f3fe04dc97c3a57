"""The only code that imports a Kafka client: connect, ask, read."""
