"""Facts, plans and outcomes as tables."""
