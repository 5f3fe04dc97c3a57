"""Find unused offsets and groups."""
