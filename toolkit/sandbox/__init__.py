"""Real Apache Kafka on loopback, seeded with one consumer group per problem."""
