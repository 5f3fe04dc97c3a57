"""Which groups, topics and partitions a request is about."""
