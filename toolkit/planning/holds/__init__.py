"""Check whether partitions of a live group can be held, and estimate the cost."""
