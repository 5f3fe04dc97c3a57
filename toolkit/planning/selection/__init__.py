"""Select the groups, topics and partitions of a request."""
