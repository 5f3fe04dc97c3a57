"""Whether partitions of a live group can be held, and what that costs."""
