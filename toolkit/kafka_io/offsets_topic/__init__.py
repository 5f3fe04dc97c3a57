"""Reading `__consumer_offsets`."""
