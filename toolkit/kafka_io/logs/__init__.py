"""Reading partitions: where they start and end, and their records."""
